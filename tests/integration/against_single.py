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
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import torch
import torch.distributed as c10d
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from workloads import recipe
from workloads.__main__ import parser
from workloads.dist import Dist, process_group
from workloads.recipe import Pass, batches, by_kind, clip_gradients, make_decoder, make_pass

NUM_STEPS = 3
recipe.MAX_GRAD_NORM = 0.01  # so that clipping always matters


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
    weight = 2.0 if is_broken and dist.rank == 0 else 1.0
    stages = workload.stages() if hasattr(workload, "stages") and not is_broken else None
    replica, num_replicas = place(workload, config, dist)
    of_replicas = [take(config, dist, number) for number in range(num_replicas)]
    together = [torch.cat(windows) for windows in zip(*of_replicas, strict=True)]
    share = getattr(workload, "share", lambda _config, _dist, window: window)
    mine = [share(config, dist, window) for window in of_replicas[replica]]
    with getattr(workload, "context", lambda _config: nullcontext())(config):
        alone = make_decoder(config, dist)
        expected, reference = steps(alone, make_pass(alone, autocast=False), together, config)
        model = workload.parallelize(make_decoder(config, dist), config, dist)
        both_ways = getattr(workload, "passes", passes)(model, config, dist, weight)
        losses, gradients = steps(model, both_ways, mine, config, stages)
    c10d.all_reduce(losses)
    everywhere: list[Any] = [None] * dist.world_size
    c10d.all_gather_object(everywhere, sorted(gradients))
    assert {name for names in everywhere for name in names} == set(reference), (
        "each weight is trained somewhere"
    )
    own = [
        (gradients[name] - reference[name]).norm() / reference[name].norm() for name in gradients
    ]
    worst = torch.stack(own).max()
    c10d.all_reduce(worst, c10d.ReduceOp.MAX)
    return {
        "loss": float((losses / dist.world_size - expected).abs().max()),
        "gradient": float(worst),
    }


def passes(model: nn.Module, _config: Any, _dist: Dist, weight: float) -> Pass:
    """Forward and backward of a mode that has none of its own."""
    return make_pass(model, autocast=False, weight=weight)


def place(workload: Any, config: Any, dist: Dist) -> tuple[int, int]:
    """Which replica of the model this rank belongs to, of how many."""
    ranks_per_replica = getattr(workload, "ranks_per_replica", lambda _config, _dist: 1)
    size = ranks_per_replica(config, dist)
    return dist.rank // size, dist.world_size // size


def take(config: Any, dist: Dist, replica: int) -> list[Tensor]:
    """The first batches of a replica."""
    stream = batches(config, dist, replica)
    return [next(stream) for _ in range(NUM_STEPS)]


def steps(
    model: nn.Module,
    both_ways: Pass,
    windows: list[Tensor],
    config: Any,
    stages: c10d.ProcessGroup | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of some AdamW steps, and whole gradients of the first by parameter."""
    groups = by_kind(model.parameters())
    optimizer = torch.optim.AdamW([{"params": group} for group in groups], lr=config.learning_rate)
    losses, gradients = [], {}
    for window in windows:
        loss = both_ways(window)
        clip_gradients(groups, stages)
        if not losses:
            gradients = {
                re.sub(r"^(module|\d+)\.", "", name): whole(parameter.grad)
                for name, parameter in model.named_parameters()
            }
        losses.append(whole(loss))
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses), gradients


def whole(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()


if __name__ == "__main__":
    main()
