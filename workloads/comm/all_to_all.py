"""All-to-all: every rank sends a part to each; parts are equal, or differ from peer to peer.

Experts on other ranks are fed so, unevenly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal

import torch
import torch.distributed as c10d

from workloads.collectives import Collective, Exchange, Numbers, measure
from workloads.dist import Dist
from workloads.harness import Facts

Parts = Literal["even", "uneven"]


@dataclass(frozen=True, kw_only=True)
class Config(Collective):
    """The command line."""

    parts: Annotated[Parts, "whether every peer gets as much; two ranks have one peer each"] = (
        "even"
    )


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    return measure(config, dist, "all_to_all", partial(prepare, config.parts))


def prepare(parts: Parts, numbers: Numbers) -> Exchange:
    """Out of place: a rank's own part is copied, too."""
    group = numbers.group
    ranks = range(group.num_ranks)
    splits = [splits_of(parts, rank, numbers) for rank in ranks]  # by sender
    starts = [[0, *accumulate(row)] for row in splits]
    sent, received = splits[group.rank], [row[group.rank] for row in splits]
    x, gathered = numbers.mine(), numbers.blank(sum(received))
    # Backends may have a way of their own where nobody names sizes.
    named = (received, sent) if parts == "uneven" else ()
    return Exchange(
        call=lambda: c10d.all_to_all_single(gathered, x, *named, group=group.handle),
        given=x,
        result=gathered,
        expected=torch.cat(
            [numbers.of(rank, *starts[rank][group.rank : group.rank + 2]) for rank in ranks]
        ),
    )


def splits_of(parts: Parts, rank: int, numbers: Numbers) -> list[int]:
    """How many numbers a rank sends to each, itself included, which has an equal share.

    Unevenly it sends the k-th after it 2k of n² parts, k from 1 to n - 1. So every rank sends and
    gets the whole message, 1 / n of it from itself, as busbw supposes.
    """
    num_ranks = numbers.group.num_ranks
    if parts == "even":
        return [numbers.numel_per_rank] * num_ranks
    distances = [(peer - rank) % num_ranks for peer in range(num_ranks)]
    splits = [2 * k * numbers.numel // num_ranks**2 for k in distances]
    splits[rank] = numbers.numel - sum(splits)
    return splits
