# ruff: noqa: E402  (torch is an extra)
"""Device, backend, clock and memory, with a stand-in for torch.cuda."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from workloads import dist
from workloads.dist import (
    Dist,
    Stopwatch,
    backend_for,
    choose_device,
    clock_for,
    memory_of,
    process_group,
)
from workloads.turns import Turns

GPU = torch.device("cuda", 1)
CPU = torch.device("cpu")


class FakeEvent:
    """Recorded in a stream whose work takes 5 ms a launch; unreadable before synchronisation."""

    def __init__(self, cuda: "FakeCuda") -> None:
        self._cuda = cuda

    def record(self) -> None:
        self._at_ms = self._cuda.queued_ms

    def query(self) -> bool:
        return self._at_ms <= self._cuda.finished_ms

    def elapsed_time(self, end: "FakeEvent") -> float:
        assert end._at_ms <= self._cuda.finished_ms, "not ready"
        return end._at_ms - self._at_ms


class FakeCuda:
    """What dist.py asks of torch.cuda."""

    def __init__(self, num_devices: int = 2) -> None:
        self.num_devices = num_devices
        self.current: torch.device | None = None
        self.queued_ms = self.finished_ms = 0.0
        self.num_synchronized = 0

    def is_available(self) -> bool:
        return self.num_devices > 0

    def device_count(self) -> int:
        return self.num_devices

    def set_device(self, device: torch.device) -> None:
        self.current = device

    def launch(self) -> None:
        self.queued_ms += 5.0

    def synchronize(self) -> None:
        self.finished_ms = self.queued_ms
        self.num_synchronized += 1

    def Event(self, enable_timing: bool) -> FakeEvent:  # noqa: N802
        assert enable_timing
        return FakeEvent(self)

    def memory_stats(self, device: torch.device) -> dict[str, int]:
        assert device == GPU
        return {
            "allocated_bytes.all.current": 1,
            "allocated_bytes.all.peak": 5,
            "reserved_bytes.all.peak": 8,
            "num_alloc_retries": 2,
        }


def test_a_rank_takes_the_gpu_of_its_local_rank() -> None:
    cuda = FakeCuda()
    assert choose_device(1, cuda) == cuda.current == GPU
    assert backend_for(GPU) == "nccl"


def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(ValueError, match="local rank 2 has no GPU: the node has 2"):
        choose_device(2, FakeCuda())


def test_without_gpus_it_is_the_cpu_with_gloo() -> None:
    assert choose_device(5, FakeCuda(num_devices=0)) == CPU
    assert backend_for(CPU) == "gloo"
    assert clock_for(CPU, FakeCuda()) == {}
    assert memory_of(CPU, FakeCuda()) == {}


@pytest.mark.parametrize(("device", "device_ids"), [(GPU, [1]), (CPU, None)])
def test_ddp_is_told_the_gpu_only(
    device: torch.device, device_ids: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, Any] = {}
    monkeypatch.setattr(dist, "DistributedDataParallel", lambda _model, **options: told | options)
    rank = Dist(rank=0, world_size=1, device=device, device_name="x", init_time_s=0.0)
    assert rank.replicated(torch.nn.Linear(1, 1)) == {"device_ids": device_ids}


def test_memory_is_what_the_allocator_reached() -> None:
    assert memory_of(GPU, FakeCuda()) == {
        "peak_allocated_bytes": 5,
        "peak_reserved_bytes": 8,
        "allocator_retries": 2,
    }


def test_events_time_the_device_and_steps_do_not_wait() -> None:
    cuda = FakeCuda()
    times_s: list[float] = []
    sink = SimpleNamespace(step=lambda index, time_s, **fields: times_s.append(time_s))
    turns = Turns(30, sink, **clock_for(GPU, cuda))
    for launches in itertools.cycle([1, 3]):
        if not turns.step():
            break
        assert cuda.num_synchronized == 0
        for _ in range(launches):
            cuda.launch()
    assert times_s == [0.005, 0.015] * 15


def test_a_part_of_a_step_is_timed_without_waiting() -> None:
    cuda = FakeCuda()
    watch = Stopwatch(GPU, cuda)
    start = watch.mark()
    cuda.launch()
    took = watch.since(start)
    assert cuda.num_synchronized == 0
    cuda.synchronize()
    assert took.item() == pytest.approx(0.005)


def test_the_time_of_one_call_is_the_mean_of_so_many() -> None:
    cuda = FakeCuda()
    took = Stopwatch(GPU, cuda).mean(lambda: (cuda.launch(), cuda.launch()), 4)
    doubled = took.then(lambda time_s: 2 * time_s)
    assert cuda.num_synchronized == 0
    cuda.synchronize()
    assert took.item() == pytest.approx(0.010)
    assert doubled.item() == pytest.approx(0.020)


def test_the_wall_clock_times_parts_on_the_cpu() -> None:
    watch = Stopwatch(CPU)
    took = watch.since(watch.mark())
    assert took.item() == took.item() > 0


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


@pytest.mark.usefixtures("alone")
def test_a_process_alone_needs_no_torchrun() -> None:
    with process_group(cuda=FakeCuda(num_devices=0)) as dist:
        assert (dist.rank, dist.world_size, dist.device_name) == (0, 1, "cpu")
        assert dist.local_world_size is None
        assert torch.distributed.is_initialized()
        assert dist.init_time_s > 0
    assert not torch.distributed.is_initialized()


@pytest.mark.usefixtures("alone")
def test_torchrun_tells_how_many_ranks_a_node_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    with process_group(cuda=FakeCuda(num_devices=0)) as dist:
        assert dist.local_world_size == 8


@pytest.mark.usefixtures("alone")
def test_a_failing_rank_does_not_wait_for_its_peers() -> None:
    with pytest.raises(RuntimeError), process_group(cuda=FakeCuda(num_devices=0)):
        raise RuntimeError
    assert torch.distributed.is_initialized()
    torch.distributed.destroy_process_group()
