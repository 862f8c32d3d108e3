"""Scatter: every rank gets its part of what the root has."""

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
    return measure(config, dist, "scatter", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """Parts leave from one tensor, side by side."""
    group, numel = numbers.group, numbers.numel_per_rank
    parts = list(numbers.mine().split(numel)) if group.is_root else None
    part = numbers.blank(numel)
    return Exchange(
        call=lambda: c10d.scatter(part, parts, group.root, group=group.handle),
        result=part,
        expected=numbers.of(0, group.rank * numel, (group.rank + 1) * numel),
    )
