"""Run under torchrun: counts of a step that really communicates, by rank and as JSON: FLOPs and
collectives.
"""

import json
import sys
from importlib import import_module

import torch.distributed as c10d

from workloads.__main__ import parser
from workloads.dist import process_group
from workloads.recipe import Training
from workloads.static.counts import Counts


def main(name: str, *options: str) -> None:
    workload = import_module(f"workloads.training.{name}")
    config = workload.Config(**vars(parser(name, workload.Config).parse_args(options)))
    with process_group() as dist:
        training = Training(config, dist, workload.parallelize)
        window_BT = next(training.batches())
        training.step(window_BT)
        with Counts() as counts:
            training.step(window_BT)
        found = [counts.flops, counts.num_collectives, counts.collective_bytes]
        by_rank: list[object] = [None] * dist.world_size
        c10d.all_gather_object(by_rank, found)
        if dist.rank == 0:
            print(json.dumps(by_rank))


if __name__ == "__main__":
    main(*sys.argv[1:])
