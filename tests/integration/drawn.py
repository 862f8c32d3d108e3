"""Run under torchrun: modes whose ranks draw only the weights that they hold.

Prints a JSON object by mode: its first and last loss, and by how much the spread of the weights
drawn by the worst rank is off.
"""

import json
import sys
from importlib import import_module
from typing import Any

import torch
import torch.distributed as c10d
from torch import Tensor
from torch.distributed.tensor import DTensor

from workloads.__main__ import parser
from workloads.dist import Dist, process_group
from workloads.models.decoder import STD
from workloads.recipe import Training

NUM_STEPS = 10


def main() -> None:
    with process_group() as dist:
        found = {mode: drawn(dist, *mode.split()) for mode in sys.argv[1:]}
        if dist.rank == 0:
            print(json.dumps(found))


def drawn(dist: Dist, name: str, *options: str) -> dict[str, Any]:
    """What a mode draws and how it trains, or why it is refused."""
    workload = import_module(f"workloads.training.{name}")
    given = parser(name, workload.Config).parse_args([*options, "--init", "held"])
    try:
        training = Training(workload.Config(**vars(given)), dist, workload.parallelize)
    except ValueError as error:
        return {"refused": str(error)}
    off = torch.stack([abs(weight.std() / STD - 1) for weight in held(training)]).max()
    c10d.all_reduce(off, c10d.ReduceOp.MAX)
    window = next(training.batches())
    losses = [training.step(window)["loss"] for _ in range(NUM_STEPS)]
    return {"losses": [float(own(losses[0])), float(own(losses[-1]))], "off": float(off)}


def held(training: Training) -> list[Tensor]:
    """The matrices of this rank."""
    weights = [own(weight.detach()) for weight in training.model.parameters()]
    return [weight for weight in weights if weight.dim() > 1]


def own(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


if __name__ == "__main__":
    main()
