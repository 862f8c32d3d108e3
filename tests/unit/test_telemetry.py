"""What is read of a trial's host, and the metrics that come of a trial's telemetry."""

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.telemetry.gpu import Gpus
from runners.telemetry.host import CpuTimes, Host, shares
from runners.telemetry.processes import Process, parse, table
from runners.telemetry.sampler import Sampler
from runners.telemetry.summary import metrics
from tests.unit.test_telemetry_gpu import FakeNvml

GUARD, AGENT, RANK, STRANGER = 10, 11, 12, 99
GIB = 2**30


class FakeNode:
    """What host.py reads: all CPUs, as psutil has them, and processes, each spent and ended."""

    def __init__(self) -> None:
        kinds = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait")
        self.cpus = dict.fromkeys(kinds, 0.0)
        self.processes = {
            1: process(0),
            GUARD: process(1, 9.0),
            AGENT: process(GUARD, 1.5),
            RANK: process(AGENT, 2.0),
            STRANGER: process(1, 50.0),
        }

    def host(self, root: int = GUARD) -> Host:
        return Host(root, self, lambda: self.processes)

    def end(self, pid: int) -> None:
        """The process ends, and its parent waits for it."""
        gone = self.processes.pop(pid)
        parent = self.processes[gone.parent]
        ended_s = parent.ended_s + gone.spent_s + gone.ended_s
        self.processes[gone.parent] = replace(parent, ended_s=ended_s)

    def pass_by(self, **seconds: float) -> None:
        """CPUs spend so much."""
        for kind, spent_s in seconds.items():
            self.cpus[kind] += spent_s

    def cpu_times(self) -> SimpleNamespace:
        return SimpleNamespace(**self.cpus)

    def virtual_memory(self) -> SimpleNamespace:
        return SimpleNamespace(available=GIB)

    def getloadavg(self) -> Sequence[float]:
        return 1.5, 1.0, 0.5


def process(parent: int, spent_s: float = 0.0) -> Process:
    return Process(parent=parent, spent_s=spent_s, ended_s=0.0)


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def test_a_trial_s_cpu_time_is_that_of_what_lives_below_its_guard(node: FakeNode):
    assert node.host().read()["cpu_time_s"] == 3.5


def test_those_that_ended_count_through_who_waited_for_them(node: FakeNode):
    host = node.host()
    for pid in (RANK, AGENT):
        node.end(pid)
        assert host.read()["cpu_time_s"] == 3.5


def test_a_tree_without_its_root_has_no_cpu_time(node: FakeNode):
    assert "cpu_time_s" not in node.host(root=7777).read()


def test_the_line_of_a_process_whose_name_looks_like_a_line():
    ticks = b"1480 20 300 4"
    found = parse(b"12 (python) S 99 (x)) R 11 12 12 0 -1 4194304 7 8 9 10 " + ticks + b" 20 0 1")
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert found.parent == 11
    assert found.spent_s == pytest.approx(1500 * tick_s)
    assert found.ended_s == pytest.approx(304 * tick_s)


def test_the_table_has_this_process_as_its_parent_s_child():
    found = table()[os.getpid()]
    assert found.parent == os.getppid()
    assert 0 < found.spent_s <= time.process_time() + 0.02, "in ticks"


def test_shares_are_of_all_cpus_since_the_sample_before(node: FakeNode):
    host = node.host()
    first = host.read()
    assert not [name for name in first if name.endswith("_ratio")]
    node.processes[RANK] = process(AGENT, 4.0)
    node.pass_by(user=2.0, steal=1.0, idle=4.0, iowait=1.0)
    found = host.read()
    assert found["cpu_total_s"] == 8.0
    assert found["cpu_busy_ratio"] == 3 / 8
    assert found["own_cpu_ratio"] == 2 / 8
    assert found["foreign_cpu_ratio"] == 1 / 8, "what the hypervisor took is foreign"


def test_no_time_has_no_shares():
    times = CpuTimes(busy_s=1.0, total_s=2.0, own_s=0.5)
    assert shares(times, times) == {}


def test_what_cannot_be_read_is_absent_and_why_is_told_once(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse() -> Sequence[float]:
        raise OSError("no /proc/loadavg")

    caplog.set_level("INFO")
    monkeypatch.setattr(node, "getloadavg", refuse)
    host = node.host()
    for _ in range(3):
        found = host.read()
    assert set(found) == {"cpu_time_s", "available_memory_bytes"}
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["no load in the telemetry: no /proc/loadavg"]


def test_without_the_trial_s_share_the_busy_share_is_known(node: FakeNode):
    host = node.host(root=7777)
    host.read()
    node.pass_by(user=1.0, idle=1.0)
    ratios = {name: value for name, value in host.read().items() if name.endswith("_ratio")}
    assert ratios == {"cpu_busy_ratio": 0.5}


def sample(path: Path, node: FakeNode, num_gpus: int = 0) -> Sampler:
    return Sampler(path, node.host(), partial(Gpus, None, FakeNvml(num_gpus)))


def test_a_sampler_samples_from_launch_to_end(node: FakeNode, tmp_path: Path):
    path = tmp_path / "telemetry.jsonl"
    sampler = sample(path, node, num_gpus=1)
    sampler.stop(cpu_time_s=7.0)
    sampler.stop(cpu_time_s=8.0)
    *_, last = sampler.samples
    assert last["cpu_time_s"] == 7.0, "what the guard told of the end"
    assert last["available_memory_bytes"] == GIB
    assert [gpu["uuid"] for gpu in last["gpus"]] == ["GPU-0a"]
    assert [json.loads(line) for line in path.read_text().splitlines()] == list(sampler.samples)


def test_a_sampler_goes_on_until_it_is_stopped(
    node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Sampler, "period_s", 0.001)
    sampler = sample(tmp_path / "telemetry.jsonl", node)
    while len(sampler.samples) < 5:
        time.sleep(0.001)
    sampler.stop()
    assert "telemetry" not in {thread.name for thread in threading.enumerate()}
    assert "cpu_time_s" in sampler.samples[-1]


def test_a_sampler_that_breaks_off_is_told_of_and_hurts_nobody(
    node: FakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "telemetry.jsonl"
    path.symlink_to("elsewhere")
    sampler = sample(path, node)
    sampler.stop()
    assert "the telemetry of a trial broke off" in caplog.text
    assert metrics(sampler.samples) == {}
    assert not (tmp_path / "elsewhere").exists()


def test_a_driver_that_never_answers_holds_nobody_up(
    node: FakeNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr("runners.telemetry.sampler._STOP_S", 0.01)
    answer, nvml = threading.Event(), FakeNvml(num_gpus=1)
    begin = nvml.nvmlInit
    monkeypatch.setattr(nvml, "nvmlInit", lambda: answer.wait() and begin())
    path = tmp_path / "telemetry.jsonl"
    sampler = Sampler(path, node.host(), partial(Gpus, None, nvml))
    sampler.stop()
    assert "does not answer" in caplog.text
    assert metrics(sampler.samples) == {}
    answer.set()


def values(samples: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Metrics, each of which has one value."""
    return {name: value.item() for name, value in metrics(samples).items()}


def test_metrics_of_the_host():
    samples = [
        {"cpu_time_s": 0.0},
        {"cpu_time_s": 4.0, "foreign_cpu_ratio": 0.1, "cpu_total_s": 8.0},
        {"cpu_busy_ratio": 0.5, "cpu_total_s": 8.0},
        {"cpu_time_s": 5.0, "foreign_cpu_ratio": 0.4, "cpu_total_s": 4.0},
    ]
    assert values(samples) == {"cpu_time_s": 5.0, "foreign_cpu_ratio": pytest.approx(0.2)}


def test_a_quiet_node_has_no_negative_neighbours():
    assert values([{"foreign_cpu_ratio": -0.01, "cpu_total_s": 1.0}]) == {"foreign_cpu_ratio": 0.0}


def gpu(**readings: Any) -> dict[str, Any]:
    return {"uuid": "GPU-0a", **readings}


def test_metrics_of_the_gpus_are_over_gpus_and_samples():
    samples = [
        {"gpus": [gpu(busy_ratio=busy, sm_clock_hz=clock, power_w=power, temperature_c=degrees)]}
        for busy, clock, power, degrees in (
            (0.0, 1.0e9, 100.0, 40),
            (0.9, 1.9e9, 600.0, 71),
            (0.9, 1.8e9, 500.0, 69),
        )
    ]
    assert values(samples) == {
        "gpu_busy_ratio": pytest.approx(0.6),
        "gpu_sm_clock_hz": 1.8e9,
        "gpu_power_w": pytest.approx(400.0),
        "gpu_temperature_c": 71,
    }


def test_throttling_is_what_nobody_chose():
    told = [["idle"], [], ["application_clocks"], ["application_clocks", "power_cap"]]
    samples = [{"gpus": [gpu(throttle_reasons=reasons)]} for reasons in told]
    assert values(samples) == {"gpu_throttled_ratio": 0.25}


def test_memory_errors_are_those_since_the_launch_of_each_gpu():
    counts = [(5, 0), (5, 1), (0, 1), (2, 1)]
    samples = [
        {"gpus": [gpu(num_ecc_uncorrected=a), gpu(num_ecc_uncorrected=b) | {"uuid": "GPU-1b"}]}
        for a, b in counts
    ]
    found = metrics(samples)["gpu_ecc_errors"]
    assert found.tolist() == [3], "one, and two after a reset"
    assert found.dtype == "int64"
