"""Who this rank is, what it computes on, how its device is timed, and whether it is profiled.

The one place that knows ranks, devices and backends: gloo on the CPU, NCCL on CUDA. Functions take
`cuda` as an argument, so that tests can pass a fake.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import torch
import torch.distributed as c10d
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from workloads.records import DIRECTORY_VARIABLE, PROFILE_VARIABLE, trace_file

TIMEOUT_S = 300.0  # a rank waiting longer than this in a collective gives up


@dataclass(frozen=True, kw_only=True)
class Dist:
    """This rank's place in the job."""

    rank: int
    world_size: int
    device: torch.device
    device_name: str
    init_time_s: float
    local_world_size: int | None = None  # ranks per node; None where nobody has told
    _meshes: list[DeviceMesh] = field(default_factory=list, init=False, repr=False, compare=False)

    def replicated(self, model: nn.Module, **options: Any) -> nn.Module:
        """The model with its gradients averaged over all ranks, bucket by bucket.

        Raises ValueError for one without weights.
        """
        if any(weight.is_meta for weight in model.parameters()):
            raise ValueError("init held is for modes that cut the weights over ranks: init whole")
        return DistributedDataParallel(model, device_ids=self.device_ids, **options)

    @property
    def device_ids(self) -> list[int] | None:
        """What torch wants where it asks for devices: this rank's GPU, None on the CPU."""
        return None if self.device.index is None else [self.device.index]

    def mesh(self, **sizes: int) -> DeviceMesh:
        """All ranks as a mesh of axes by name, the innermost last."""
        mesh = init_device_mesh(
            self.device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes)
        )
        self._meshes.append(mesh)
        return mesh

    def destroy(self) -> None:
        """End all process groups with their threads, once nothing of the workload is in use.

        torch's caches keep meshes, and these their groups, whose threads would outlive the
        interpreter: one of gloo's that lets go of a tensor just then aborts the process.
        """
        c10d.destroy_process_group()
        for mesh in self._meshes:
            getattr(mesh, "_pg_registry", {}).clear()
        gc.collect()  # modules and their hooks hold each other, and a group


class Clock(TypedDict, total=False):
    """The arguments of Turns that depend on the device; none of them on the CPU."""

    synchronize: Callable[[], None]
    mark: Callable[[], Any]
    seconds: Callable[[Any, Any], float]


@contextmanager
def process_group(timeout_s: float = TIMEOUT_S, cuda: Any = torch.cuda) -> Iterator[Dist]:
    """The default process group, as torchrun's environment describes it; alone without torchrun.

    Left behind when the body fails: peers may be inside a collective, and destroying the group
    would wait for them.
    """
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_world_size = os.environ.get("LOCAL_WORLD_SIZE")
    device = choose_device(int(os.environ.get("LOCAL_RANK", "0")), cuda)
    start = time.perf_counter()
    c10d.init_process_group(
        backend_for(device),
        rank=rank,
        world_size=world_size,
        store=None if "MASTER_ADDR" in os.environ else c10d.HashStore(),
        timeout=timedelta(seconds=timeout_s),
        device_id=device if device.type == "cuda" else None,
    )
    dist = Dist(
        rank=rank,
        world_size=world_size,
        device=device,
        device_name=cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        init_time_s=time.perf_counter() - start,
        local_world_size=int(local_world_size) if local_world_size else None,
    )
    yield dist
    dist.destroy()


def num_profiled_steps() -> int:
    """How many steps are to be profiled after the warm-up, $PACELINE_PROFILE; 0 without it.

    Raises ValueError for what is no number of steps, and where there is no folder for the trace.
    """
    text = os.environ.get(PROFILE_VARIABLE, "0")
    if not text.isdecimal():
        raise ValueError(f"{PROFILE_VARIABLE} is {text!r}; give the number of steps to profile")
    if int(text) and not os.environ.get(DIRECTORY_VARIABLE):
        raise ValueError(f"{PROFILE_VARIABLE} needs {DIRECTORY_VARIABLE}, the folder for the trace")
    return int(text)


def own_trace() -> Path:
    """Where the profile of this rank goes, once `num_profiled_steps` has said that there is one."""
    return trace_file(Path(os.environ[DIRECTORY_VARIABLE]), int(os.environ.get("RANK", "0")))


def choose_device(local_rank: int, cuda: Any = torch.cuda) -> torch.device:
    """This rank's GPU, made current, or the CPU of a machine without one.

    Raises ValueError where the node has more ranks than GPUs.
    """
    if not cuda.is_available():
        return torch.device("cpu")
    if local_rank >= cuda.device_count():
        raise ValueError(f"local rank {local_rank} has no GPU: the node has {cuda.device_count()}")
    device = torch.device("cuda", local_rank)
    cuda.set_device(device)
    return device


def backend_for(device: torch.device) -> str:
    """The communication library for tensors on `device`."""
    return "nccl" if device.type == "cuda" else "gloo"


def clock_for(device: torch.device, cuda: Any = torch.cuda) -> Clock:
    """How to time `device`: CUDA events in its current stream, or the wall clock of Turns."""
    if device.type != "cuda":
        return {}

    def mark() -> Any:
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(start: Any, end: Any) -> float:
        return start.elapsed_time(end) / 1e3  # milliseconds

    return {"synchronize": cuda.synchronize, "mark": mark, "seconds": seconds}


def wait_for(device: torch.device, cuda: Any = torch.cuda) -> None:
    """Return once the device has done all its work; a CPU has already."""
    if device.type == "cuda":
        cuda.synchronize()


@dataclass(frozen=True)
class Later:
    """A number that is there once the device has come to it, such as the time of its work."""

    item: Callable[[], float]

    def then(self, function: Callable[[float], float]) -> "Later":
        """What a function makes of it."""
        return Later(lambda: function(self.item()))


class Stopwatch:
    """Times parts of a step on a device, without waiting for it."""

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        clock = clock_for(device, cuda)
        self.mark = clock.get("mark", time.perf_counter)
        self._seconds = clock.get("seconds", lambda start, end: end - start)

    def since(self, start: Any) -> Later:
        """Seconds from a mark until now."""
        end = self.mark()
        return Later(lambda: self._seconds(start, end))

    def mean(self, call: Callable[[], object], repeats: int) -> Later:
        """Seconds of one call, of so many in a row."""
        start = self.mark()
        for _ in range(repeats):
            call()
        return self.since(start).then(lambda time_s: time_s / repeats)


def memory_of(device: torch.device, cuda: Any = torch.cuda) -> dict[str, int]:
    """Fields of a memory record: what the CUDA caching allocator reached; empty on the CPU."""
    if device.type != "cuda":
        return {}
    stats = cuda.memory_stats(device)
    return {
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "allocator_retries": stats["num_alloc_retries"],
    }
