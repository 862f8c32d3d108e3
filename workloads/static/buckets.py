"""The gradient exchange of DistributedDataParallel without its C++ reducer, which wants data."""

from typing import Any

import torch
import torch.distributed as c10d
from torch import Tensor, nn

_FIRST_BYTES, _BYTES = 2**20, 25 * 2**20  # of DistributedDataParallel, bucket_cap_mb


class Buckets(nn.Module):
    """A model whose gradients are averaged over all ranks, bucket by bucket as they arrive
    (arXiv:2006.15704, section 3.2). Buckets have the sizes that DistributedDataParallel gives them.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.module = model
        self.require_backward_grad_sync = True
        weights = [weight for weight in model.parameters() if weight.requires_grad][::-1]
        indices, _ = c10d._compute_bucket_assignment_by_size(weights, [_FIRST_BYTES, _BYTES])
        for number, bucket in enumerate(indices):
            held = [weights[index] for index in bucket]
            flat = torch.empty(sum(weight.numel() for weight in held), dtype=held[0].dtype)
            self.register_buffer(f"bucket_{number}", flat, persistent=False)
            _exchange(self, held, flat)

    def forward(self, *args: Any) -> Any:
        return self.module(*args)


def _exchange(model: Buckets, weights: list[nn.Parameter], flat: Tensor) -> None:
    """Average the gradients of a bucket over all ranks once the last of them has arrived."""
    parts = dict(zip(weights, flat.split([weight.numel() for weight in weights]), strict=True))
    missing = set(weights)

    def arrived(weight: Tensor) -> None:
        if not model.require_backward_grad_sync:
            return
        parts[weight].copy_(weight.grad.flatten())
        missing.remove(weight)
        if not missing:
            missing.update(weights)
            flat.div_(c10d.get_world_size())
            c10d.all_reduce(flat)
            for each, part in parts.items():
                each.grad.copy_(part.view_as(each))

    for weight in weights:
        weight.register_post_accumulate_grad_hook(arrived)
