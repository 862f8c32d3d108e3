"""Run under torchrun: parallel modes against one process on the same batches and weights.

torchrun ... tests/integration/against_single.py "ddp --model debug" "fsdp --model debug --break"

Prints a JSON object by mode: how far losses (absolute) and gradients of the first step (relative,
of the worst parameter) lie apart. With `--break` the batches of one rank count twice, as where
gradients are averaged by the wrong number: a check that does not notice that notices nothing.
"""

import json
import sys
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import torch
import torch.distributed as c10d
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from workloads.__main__ import parser
from workloads.dist import Dist, process_group
from workloads.recipe import batches, by_kind, loss_of, make_decoder

NUM_STEPS = 3


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
    weight = 2.0 if "--break" in options and dist.rank == 0 else 1.0
    replica, num_replicas = place(workload, config, dist)
    of_replicas = [take(config, dist, number) for number in range(num_replicas)]
    together = [torch.cat(windows) for windows in zip(*of_replicas, strict=True)]
    share = getattr(workload, "share", lambda _config, _dist, window: window)
    mine = [share(config, dist, window) for window in of_replicas[replica]]
    with getattr(workload, "context", lambda _config: nullcontext())(config):
        expected, reference = steps(make_decoder(config, dist), together, config.learning_rate)
        model = workload.parallelize(make_decoder(config, dist), config, dist)
        losses, gradients = steps(model, mine, config.learning_rate, weight)
    c10d.all_reduce(losses)
    errors = [(gradients[name] - own).norm() / own.norm() for name, own in reference.items()]
    return {
        "loss": float((losses / dist.world_size - expected).abs().max()),
        "gradient": float(max(errors)),
    }


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
    model: nn.Module, windows: list[Tensor], learning_rate: float, weight: float = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of some AdamW steps, and whole gradients of the first by parameter.

    `weight` is how much this rank's batches count in its gradients.
    """
    groups = [{"params": group} for group in by_kind(model.parameters())]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate)
    losses, gradients = [], {}
    for window in windows:
        loss = loss_of(model, window)
        (weight * loss).backward()
        if not losses:
            gradients = {
                name.removeprefix("module."): whole(parameter.grad)
                for name, parameter in model.named_parameters()
            }
        losses.append(whole(loss.detach()))
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses), gradients


def whole(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()


if __name__ == "__main__":
    main()
