"""Counts what a step does, operator by operator: FLOPs, collectives and how often each runs."""

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
_WRAPPERS = {"DTensor", "AsyncCollectiveTensor"}  # they call operators on what they hold
# Kinds of collectives by a part of the operator's name, the longer first.
_KINDS = {
    "reduce_scatter": "reduce_scatter",
    "allgather": "all_gather",
    "all_gather": "all_gather",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "broadcast": "broadcast",
    "barrier": "barrier",
    "reduce_": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
}


class Counts(TorchDispatchMode):
    """What ran within it, on this rank: tensors that are cut over ranks count as what we hold."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        self.operators: Counter[str] = Counter()
        self.num_collectives: Counter[str] = Counter()
        self.collective_bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__name__ in _WRAPPERS for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self._count(func, args, kwargs, out)
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        if func.namespace == "prim":
            return
        self.operators[str(func)] += 1
        self.flops += flops_of(func, args, kwargs, out)
        kind = kind_of(func)
        if kind is not None:
            self.num_collectives[kind] += 1
            # The larger of what goes in and what comes out: an all-gather ends with its size, a
            # reduce-scatter begins with it.
            self.collective_bytes[kind] += max(map(num_bytes, (*args, out)), default=0)


def kind_of(func: Any) -> str | None:
    """Kind of collective of an operator; None for one that is none, or only waits for one."""
    if func.namespace not in ("c10d", "_c10d_functional"):
        return None
    name = func._opname
    return next((kind for part, kind in _KINDS.items() if part in name), None)


def num_bytes(value: Any) -> int:
    """Bytes of the tensors in a value, however nested."""
    return sum(t.numel() * t.element_size() for t in tensors_in(value))


def tensors_in(value: Any) -> Iterable[Tensor]:
    """The tensors in a value, however nested."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def flops_of(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """FLOPs of matrix products, convolutions and attention, by torch's formulas; 0 for others."""
    packet = func._overloadpacket
    if packet in _ATTENTION:
        return _attention_flops(*args) if packet is _FORWARD else _backward_flops(*args)
    formula = flop_registry.get(packet)
    return 0 if formula is None else formula(*args, **kwargs, out_val=out)


# torch has no formula for the attention of the CPU, which stands for that of a GPU here.
_FORWARD = aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward
_ATTENTION = (_FORWARD, _BACKWARD)


def _attention_flops(q_BHTC: Tensor, k_BKSC: Tensor, *_: Any) -> int:
    """Scores and their product with the values; the causal half is not taken off."""
    return 4 * prod(q_BHTC.shape) * k_BKSC.shape[2]


def _backward_flops(_gradient: Tensor, q_BHTC: Tensor, k_BKSC: Tensor, *_: Any) -> int:
    """Five products instead of two: the scores are computed again (arXiv:2307.08691, section 2)."""
    return _attention_flops(q_BHTC, k_BKSC) * 5 // 2
