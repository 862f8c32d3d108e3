"""Send and receive: every rank sends to the next, the last to the first, all at once."""

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
    return measure(config, dist, "send_recv", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """Out of place. The ring is that of nccl-tests' sendrecv."""
    group = numbers.group
    following, previous = (group.rank + 1) % group.num_ranks, (group.rank - 1) % group.num_ranks
    x, received = numbers.mine(), numbers.blank(numbers.numel)
    ring = [
        c10d.P2POp(c10d.isend, x, group.members[following], group.handle),
        c10d.P2POp(c10d.irecv, received, group.members[previous], group.handle),
    ]

    def call() -> None:
        for work in c10d.batch_isend_irecv(ring):
            work.wait()

    return Exchange(call=call, given=x, result=received, expected=numbers.of(previous))
