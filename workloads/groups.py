"""Which ranks communicate with each other: all, those of a node, or one of each node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch.distributed as c10d

from workloads.dist import Dist

Kind = Annotated[
    Literal["world", "node", "across"],
    "who takes part: all ranks, those of a node, or the same local rank of every node",
]


@dataclass(frozen=True, kw_only=True)
class Group:
    """The ranks this one communicates with, itself included; the first is the root."""

    members: Sequence[int]  # their ranks in the job
    rank: int  # our place among them
    handle: c10d.ProcessGroup | None = None  # None is everybody

    @property
    def num_ranks(self) -> int:
        return len(self.members)

    @property
    def root(self) -> int:
        return self.members[0]

    @property
    def is_root(self) -> bool:
        return self.rank == 0


def partition(kind: Kind, world_size: int, local_world_size: int | None) -> list[list[int]]:
    """The groups of a job, which communicate all at once. torchrun numbers ranks node by node.

    Raises ValueError where the nodes have not the same number of ranks each, nobody has told how
    many, or a group would be one rank, which has nobody to communicate with.
    """
    if kind != "world" and local_world_size is None:
        raise ValueError(f"group is {kind}, but LOCAL_WORLD_SIZE is not set; launch by torchrun")
    local = world_size if local_world_size is None else local_world_size
    if kind != "world" and world_size % local:
        raise ValueError(f"group is {kind}: {world_size} ranks are not nodes of {local} each")
    every = range(world_size)
    groups = {
        "world": [list(every)],
        "node": [list(every[first : first + local]) for first in every[::local]],
        "across": [list(every[first::local]) for first in every[:local]],
    }[kind]
    if len(groups[0]) < 2:
        raise ValueError(f"group is {kind}, of one rank alone; launch more ranks or choose another")
    return groups


def group_of(kind: Kind, dist: Dist) -> Group:
    """The group of this rank, which cannot communicate yet. Raises ValueError, see partition."""
    groups = partition(kind, dist.world_size, dist.local_world_size)
    members = next(members for members in groups if dist.rank in members)
    return Group(members=members, rank=members.index(dist.rank))


def connect(kind: Kind, dist: Dist) -> Group:
    """The group of this rank, ready to communicate. All ranks must call it."""
    group = group_of(kind, dist)
    if kind == "world":
        return group
    groups = partition(kind, dist.world_size, dist.local_world_size)
    handle, _ = c10d.new_subgroups_by_enumeration(groups)
    return Group(members=group.members, rank=group.rank, handle=handle)
