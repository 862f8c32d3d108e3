"""Copies between host and device, or within one of them, by size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from workloads.dist import Dist, Stopwatch
from workloads.harness import Facts
from workloads.sweep import Sweep

HOST = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Config(Sweep):
    """The command line."""

    direction: Annotated[
        Literal["host_to_host", "host_to_device", "device_to_host", "device_to_device"],
        "from where to where; a device is a GPU",
    ] = "host_to_host"


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError for a device on a rank without GPU."""
    source, target = places(config, dist.device)
    copies = {size: copy_of(size, source, target) for size in config.sizes()}
    # What only the host does is timed by its own clock.
    device = HOST if config.direction == "host_to_host" else dist.device
    return steps(copies, config.repeats, Stopwatch(device))


def places(config: Config, device: torch.device) -> tuple[torch.device, torch.device]:
    """Where copies start and end."""
    if "device" in config.direction and device.type == "cpu":
        raise ValueError(
            f"direction is {config.direction}, but this rank has no GPU; choose host_to_host"
        )
    known = {"host": HOST, "device": device}
    source, target = config.direction.split("_to_")
    return known[source], known[target]


def copy_of(num_bytes: int, source: torch.device, target: torch.device) -> Callable[[], object]:
    """A copy that no host waits for, if the GPU does it: its memory on the host is pinned."""
    is_pinned = source != target
    start, end = (room(num_bytes, place, is_pinned) for place in (source, target))
    return partial(end.copy_, start, non_blocking=True)


def room(num_bytes: int, place: torch.device, is_pinned: bool) -> Tensor:
    """So many bytes, each written, so that the system has given them."""
    pin_memory = is_pinned and place == HOST
    return torch.ones(num_bytes, dtype=torch.uint8, device=place, pin_memory=pin_memory)


def steps(
    copies: dict[int, Callable[[], object]], repeats: int, watch: Stopwatch
) -> Iterator[Facts]:
    """Steps: each times every size."""
    while True:
        yield {
            f"copy_bytes_per_s@{size}": watch.mean(copy, repeats).then(partial(bytes_per_s, size))
            for size, copy in copies.items()
        }


def bytes_per_s(num_bytes: int, time_s: float) -> float:
    """S / t: bytes that arrive, not bytes read and written."""
    return num_bytes / time_s
