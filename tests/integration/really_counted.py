"""Run under torchrun: counts of a step that really communicates, by rank and as JSON: FLOPs and
collectives.
"""

import json
import sys
from importlib import import_module
from typing import Any

import torch.distributed as c10d

from workloads.__main__ import parser
from workloads.dist import Dist, process_group
from workloads.recipe import Training
from workloads.static.counts import Counts


def main(name: str, *options: str) -> None:
    workload = import_module(f"workloads.training.{name}")
    config = workload.Config(**vars(parser(name, workload.Config).parse_args(options)))
    with process_group() as dist:
        by_rank: list[object] = [None] * dist.world_size
        c10d.all_gather_object(by_rank, counted(workload, config, dist))
        if dist.rank == 0:
            print(json.dumps(by_rank))


def counted(workload: Any, config: Any, dist: Dist) -> list[Any]:
    """What this rank does in a step."""
    training = Training(config, dist, workload.parallelize)
    window_BT = next(training.batches())
    training.step(window_BT)
    with Counts() as counts:
        training.step(window_BT)
    return [counts.flops, counts.num_collectives, counts.collective_bytes]


if __name__ == "__main__":
    main(*sys.argv[1:])
