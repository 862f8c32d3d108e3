"""Broadcast: every rank gets what the root has."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch.distributed as c10d

from workloads.collectives import Collective, Exchange, Numbers, measure
from workloads.dist import Dist
from workloads.harness import Facts


@dataclass(frozen=True, kw_only=True)
class Config(Collective):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    return measure(config, dist, "broadcast", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """In place."""
    group = numbers.group
    x = numbers.mine() if group.is_root else numbers.blank(numbers.numel)
    return Exchange(
        call=lambda: c10d.broadcast(x, group.root, group=group.handle),
        given=x,
        result=x,
        expected=numbers.of(0),
    )
