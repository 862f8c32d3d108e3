"""The most memory that a step's tensors take at once, by what they are."""

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from workloads.static.counts import tensors_in

PARAMETERS, BUFFERS = "parameters", "buffers"
GRADIENTS, OPTIMIZER = "gradients", "optimizer"
UNSHARDED = "unsharded"  # parameters that FSDP has gathered: the storages that it resizes
ACTIVATIONS = "activations"  # made going forward
TEMPORARIES = "temporaries"  # made going backward, and by the optimizer


class Memory(TorchDispatchMode):
    """Follows the storages that operators make, until nothing holds them any more.

    An allocator's rounding and fragmentation, and what a communication library keeps, are not in
    it.
    """

    def __init__(self, model: nn.Module, state: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self._held: dict[int, tuple[weakref.ref[Any], str, int]] = {}
        self._live: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._hooks = []
        for weight in model.parameters():
            self._see(weight, PARAMETERS)
            self._hooks.append(weight.register_post_accumulate_grad_hook(self._on_gradient))
        for buffer in model.buffers():
            self._see(buffer, BUFFERS)
        self.start_over(state)

    def start_over(self, state: Iterable[Tensor]) -> None:
        """Forget the peak but not what is held, of which this is the optimizer's."""
        for value in state:
            self._see(value, OPTIMIZER)
        self.peak = +self._live

    def __enter__(self) -> "Memory":
        self._resizing = _watch_resizing(self._on_resize)
        self._resizing.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._resizing.__exit__(None, None, None)
        for hook in self._hooks:
            hook.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        out = func(*args, **(kwargs or {}))
        kind = ACTIVATIONS if _is_going_forward() else TEMPORARIES
        for tensor in tensors_in(out):
            self._see(tensor, kind, is_new=True)
        return out

    def _on_gradient(self, weight: nn.Parameter) -> None:
        if weight.grad is not None:
            self._see(weight.grad, GRADIENTS)

    def _on_resize(self, storage: torch.UntypedStorage) -> None:
        self._note(storage, UNSHARDED)

    def _see(self, tensor: Tensor, kind: str, *, is_new: bool = False) -> None:
        held = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        storage = held.untyped_storage()
        if not (is_new and storage._cdata in self._held):
            self._note(storage, kind)

    def _note(self, storage: torch.UntypedStorage, kind: str) -> None:
        """Take a storage for one of a kind, with the size that it has now."""
        key = storage._cdata
        self._drop(key)
        self._held[key] = (weakref.ref(storage, lambda _: self._drop(key)), kind, storage.nbytes())
        self._live[kind] += storage.nbytes()
        if self._live.total() > self.peak.total():
            self.peak = +self._live  # without categories of which nothing is left

    def _drop(self, key: int) -> None:
        if key in self._held:
            _, kind, num_bytes = self._held.pop(key)
            self._live[kind] -= num_bytes


def _is_going_forward() -> bool:
    return torch.is_grad_enabled() and torch._C._current_autograd_node() is None


@contextmanager
def _watch_resizing(on_resize: Any) -> Iterator[None]:
    """FSDP frees and takes back the memory of gathered parameters by resizing their storage."""
    resize = torch.UntypedStorage.resize_

    def watched(storage: torch.UntypedStorage, size: int) -> Any:
        out = resize(storage, size)
        on_resize(storage)
        return out

    torch.UntypedStorage.resize_ = watched
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = resize
