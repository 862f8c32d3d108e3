"""What cuts across all ways of training: each takes a model or a pass and gives it back changed.

decoder = checkpointed(decoder)      recompute a block's activations in the backward pass
decoder = compiled(decoder)          torch.compile, block by block
... the mode cuts the decoder over the ranks ...
both_ways = accumulated(both_ways, model, 4)
optimizer = Optimizer(model.parameters(), ...)   loss scaling and clipped gradients
"""

import functools
from collections.abc import Callable, Iterable

import torch
import torch.distributed as c10d
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

# From a window, and how much its loss counts for gradients, to the loss; leaves gradients.
Pass = Callable[[Tensor, float], Tensor]


def checkpointed(decoder: nn.Module) -> nn.Module:
    """The decoder whose blocks keep their input only and compute the rest twice
    (arXiv:1604.06174). Their names and hooks stay as they are.
    """
    for block in decoder.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return decoder


def compiled(decoder: nn.Module) -> nn.Module:
    """The decoder with each block compiled by itself, at its first call."""
    for block in decoder.blocks:
        block.compile()
    return decoder


def accumulated(both_ways: Pass, model: nn.Module, num_parts: int) -> Pass:
    """A pass in so many parts, whose gradients are added up here and exchanged once."""
    if num_parts == 1:
        return both_ways

    def in_parts(window_BT: Tensor, weight: float) -> Tensor:
        losses = []
        for number, part in enumerate(window_BT.chunk(num_parts), 1):
            _exchange_gradients(model, number == num_parts)
            losses.append(both_ways(part, weight / num_parts))
        return torch.stack(losses).mean()

    return in_parts


def _exchange_gradients(model: nn.Module, is_wanted: bool) -> None:
    """Whether the next backward pass ends with the exchange between replicas."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(is_wanted)
    elif hasattr(model, "require_backward_grad_sync"):  # DistributedDataParallel
        model.require_backward_grad_sync = is_wanted


class Optimizer:
    """Fused AdamW on gradients of a limited norm.

    With `is_scaled` losses are scaled up so that half-precision gradients do not vanish
    (arXiv:1710.03740, section 3.2): multiply the loss by `scale`. `stages` are the ranks that hold
    other weights of the same replica; their gradients are clipped together with ours.
    """

    def __init__(
        self,
        weights: Iterable[nn.Parameter],
        *,
        learning_rate: float,
        max_norm: float,
        device: torch.device,
        is_scaled: bool = False,
        stages: c10d.ProcessGroup | None = None,
    ) -> None:
        self._groups = _by_mesh(weights)
        self._max_norm, self._stages = max_norm, stages
        self._scaler = torch.amp.GradScaler(device.type, enabled=is_scaled)
        self._scaler.scale(torch.ones((), device=device))  # it wants to have seen the device
        self.adamw = torch.optim.AdamW(
            [{"params": group} for group in self._groups], lr=learning_rate, fused=True
        )

    @property
    def scale(self) -> float:
        """What a loss counts for gradients."""
        return self._scaler.get_scale()

    def clip(self) -> None:
        """Scale all gradients down to the largest norm allowed, where theirs together is larger."""
        self._unscale()
        if not self._max_norm:
            return
        norms = [nn.utils.get_total_norm(_gradients(group)) for group in self._groups]
        whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
        square = torch.stack(whole).square().sum()
        if self._stages is not None:
            c10d.all_reduce(square, group=self._stages)
        for group in self._groups:
            nn.utils.clip_grads_with_norm_(group, self._max_norm, square.sqrt())

    def _unscale(self) -> None:
        """Take the scale off the gradients; stages agree on whether one is infinite."""
        self._scaler.unscale_(self.adamw)
        if self._scaler.is_enabled() and self._stages is not None:
            for is_infinite in self._scaler._found_inf_per_device(self.adamw).values():
                c10d.all_reduce(is_infinite, c10d.ReduceOp.MAX, self._stages)

    def step(self) -> None:
        """Change the weights, unless a gradient is infinite, and forget the gradients."""
        self._scaler.step(self.adamw)
        self._scaler.update()
        self.forget()

    @property
    def state(self) -> list[Tensor]:
        """What AdamW keeps beside the weights."""
        kept = [state.values() for state in self.adamw.state.values()]
        return [value for values in kept for value in values]

    def forget(self) -> None:
        """Drop the gradients."""
        self.adamw.zero_grad()


def _by_mesh(weights: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Weights apart by the mesh that they are cut over: no operator takes those of two at once."""
    groups: dict[object, list[nn.Parameter]] = {}
    for weight in weights:
        mesh = weight.device_mesh if isinstance(weight, DTensor) else None
        groups.setdefault(mesh, []).append(weight)
    return list(groups.values())


def _gradients(weights: Iterable[nn.Parameter]) -> list[Tensor]:
    return [weight.grad for weight in weights if weight.grad is not None]
