"""Expert-parallel training: each rank holds some of the experts, its own batch, and a shard of the
rest.

Tokens travel to their experts and back by an uneven all-to-all, whose sizes another one tells first
(arXiv:2006.16668, section 3). What is not an expert is sharded as in training.fsdp.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.distributed as c10d
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.tensor import Shard, distribute_tensor

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.models.experts import Compute, Experts
from workloads.recipe import Parallel, Recipe, make_pass, sizes_of, train
from workloads.training.fsdp import sharded


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""

    model: Annotated[str, "preset with experts"] = "small-moe"


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where the ranks do not divide the experts."""
    return train(config, dist, parallelize)


def parallelize(decoder: Any, config: Config, dist: Dist) -> Parallel:
    """The decoder with its experts dealt out and the rest sharded. Raises ValueError."""
    num_experts = sizes_of(config).num_experts
    if not num_experts:
        raise ValueError(f"{config.model} has no experts: see the presets of models/decoder.py")
    if num_experts % dist.world_size:
        raise ValueError(f"{num_experts} experts do not go to {dist.world_size} ranks")
    mesh = dist.mesh(shard=dist.world_size)
    dealt: set[nn.Parameter] = set()
    for block in decoder.blocks:
        experts = block.feed_forward.experts
        for name, weight in list(experts.named_parameters()):
            mine = nn.Parameter(distribute_tensor(weight.detach(), mesh, [Shard(0)]))
            # Every rank's loss is a mean over its own batch; here their gradients are summed up.
            mine.register_hook(lambda gradient: gradient / dist.world_size)
            setattr(experts, name, mine)
            dealt.add(mine)
        experts.compute = elsewhere(experts, dist)
    model = sharded(decoder, mesh, config, ignored_params=dealt)
    return Parallel(model=model, both_ways=make_pass(model, dist.device), replica=dist.rank)


def elsewhere(experts: Experts, dist: Dist) -> Compute:
    """The work of all experts, each where it is."""

    def compute(x_SD: Tensor, counts_E: Tensor) -> Tensor:
        counts_RE = torch.empty_like(counts_E)  # from each rank, for each of my experts
        c10d.all_to_all_single(counts_RE, counts_E)
        sent = counts_E.view(dist.world_size, -1).sum(1).tolist()
        received = counts_RE.view(dist.world_size, -1).sum(1).tolist()
        x = collectives.all_to_all_single_autograd(x_SD, received, sent, c10d.group.WORLD)
        # They come by rank, and within a rank by expert; the experts want them by expert.
        num_mine = len(counts_RE) // dist.world_size
        experts_of = torch.arange(num_mine, device=x.device).repeat(dist.world_size)
        order = experts_of.repeat_interleave(counts_RE).argsort(stable=True)
        mine = counts_RE.view(dist.world_size, num_mine).sum(0)
        y = torch.empty_like(x).index_copy(0, order, experts.here(x[order], mine))
        return collectives.all_to_all_single_autograd(y, sent, received, c10d.group.WORLD)

    return compute
