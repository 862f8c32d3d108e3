"""Run under torchrun: parallel modes against one process on the same batches and weights.

torchrun ... tests/integration/against_single.py "ddp --model debug" "fsdp --model debug --break"

Prints a JSON object by mode: how far losses (absolute) and gradients of the first step (relative,
of the worst parameter) lie apart. With `--break` the batches of one rank count twice, as where
gradients are averaged by the wrong number, and stages clip theirs alone: a check that does not
notice that notices nothing.
"""

import json
import re
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
import torch.distributed as c10d
from torch import Tensor
from torch.distributed.tensor import DTensor

from workloads.__main__ import parser
from workloads.dist import Dist, process_group
from workloads.models.decoder import PRESETS
from workloads.recipe import Parallel, batches, make_decoder, make_optimizer
from workloads.training import single
from workloads.transforms import accumulated

NUM_STEPS = 3
CLIP = 0.01  # so that it always matters


def main() -> None:
    with process_group() as dist:
        found = {mode: apart(dist, *mode.split()) for mode in sys.argv[1:]}
        if dist.rank == 0:
            print(json.dumps(found))


def apart(dist: Dist, name: str, *options: str) -> dict[str, float]:
    """How far a mode lies from one process."""
    workload = import_module(f"workloads.training.{name}")
    known = [option for option in options if option != "--break"]
    config = workload.Config(**vars(parser(name, workload.Config).parse_args(known)))
    is_broken = "--break" in options
    parallel = workload.parallelize(make_decoder(config, dist), config, dist)
    if is_broken:
        parallel = replace(parallel, stages=None)
    num_replicas = dist.world_size // parallel.ranks_per_replica
    of_replicas = [take(config, dist, number) for number in range(num_replicas)]
    together = [torch.cat(windows) for windows in zip(*of_replicas, strict=True)]
    plain = replace(config, precision="float32", accumulate=1, checkpointing=False, compile=False)
    alone = single.parallelize(make_decoder(plain, dist), plain, dist)
    expected, reference = steps(alone, together, plain, dist)
    own = of_replicas[parallel.replica]
    losses, gradients = steps(
        parallel, own, config, dist, 2.0 if is_broken and not dist.rank else 1
    )
    return {"loss": loss_apart(losses, expected), "gradient": worst(gradients, reference, dist)}


def loss_apart(losses: Tensor, expected: Tensor) -> float:
    """How far the mean over ranks lies from what is expected, at the worst step."""
    mean = losses.clone()
    c10d.all_reduce(mean, c10d.ReduceOp.AVG)
    return float((mean - expected).abs().max())


def worst(gradients: dict[str, Tensor], reference: dict[str, Tensor], dist: Dist) -> float:
    """Relative error of the worst parameter of any rank; each is trained somewhere."""
    everywhere: list[Any] = [None] * dist.world_size
    c10d.all_gather_object(everywhere, sorted(gradients))
    trained = {name for names in everywhere for name in names}
    assert trained == set(reference), trained ^ set(reference)
    own = [
        (gradients[name] - reference[name]).norm() / reference[name].norm() for name in gradients
    ]
    found = torch.stack(own).max()
    c10d.all_reduce(found, c10d.ReduceOp.MAX)
    return float(found)


def take(config: Any, dist: Dist, replica: int) -> list[Tensor]:
    """The first batches of a replica."""
    stream = batches(config, dist.device, PRESETS[config.model].vocab_size, replica)
    return [next(stream) for _ in range(NUM_STEPS)]


def steps(
    parallel: Parallel, windows: list[Tensor], config: Any, dist: Dist, weight: float = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of some optimizer steps, and whole gradients of the first by parameter."""
    optimizer = make_optimizer(parallel, replace(config, clip=CLIP), dist)
    both_ways = accumulated(parallel.both_ways, parallel.model, config.accumulate)
    losses, gradients = [], {}
    for window in windows:
        loss = both_ways(window, weight * optimizer.scale)
        optimizer.clip()
        if not losses:
            gradients = {
                re.sub(r"^(module|\d+)\.", "", name): whole(parameter.grad)
                for name, parameter in parallel.model.named_parameters()
            }
        losses.append(whole(loss))
        optimizer.step()
    return torch.stack(losses), gradients


def whole(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()


if __name__ == "__main__":
    main()
