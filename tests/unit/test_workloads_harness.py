# ruff: noqa: E402  (torch is an extra)
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity

from workloads import records
from workloads.dist import Dist
from workloads.harness import Facts, Meter, measure
from workloads.profiling import activities


@dataclass(frozen=True, kw_only=True)
class Config:
    steps: int = 25
    precision: str = "bfloat16"


def count_down(config: Config, dist: Dist) -> Iterator[Facts]:
    assert dist.world_size == 1
    zero = torch.zeros(2)
    return ({"tokens": 8, "loss": (zero - i).sum() / 2, "model_flops": 100} for i in range(1000))


WORKLOAD = SimpleNamespace(__name__="workloads.training.fake", Config=Config, run=count_down)


def test_a_workload_is_measured_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(records.DIRECTORY_VARIABLE, str(tmp_path))
    measure(WORKLOAD, Config())

    lines = list(records.read(tmp_path / "rank-0.jsonl"))
    _, environment, group, setup, *steps, memory, summary = lines
    assert environment["workload"] == "training.fake"
    assert environment["config"] == {"steps": 25, "precision": "bfloat16"}
    assert environment["torch"] == torch.__version__
    assert (environment["device"], environment["peak_flops_per_s"]) == ("cpu", None)
    assert (group["name"], setup["name"]) == ("process_group_init", "setup")
    assert [step["step"] for step in steps] == list(range(25))
    assert [step["loss"] for step in steps] == [float(-i) for i in range(25)]
    assert {(step["tokens"], step["model_flops"]) for step in steps} == {(8, 100)}
    assert memory["peak_rss_bytes"] > 0
    assert summary["num_steps"] == 25
    assert "15 steps after warm-up" in capsys.readouterr().out
    assert "NaN" not in json.dumps(lines)


def test_a_profiled_trial_leaves_a_trace_of_its_last_steps_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(records.DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setenv(records.PROFILE_VARIABLE, "3")
    measure(WORKLOAD, Config())

    assert "after warm-up" not in capsys.readouterr().out
    kinds = [line["kind"] for line in records.read(tmp_path / "rank-0.jsonl")]
    assert kinds.count("step") == 13
    with gzip.open(records.trace_file(tmp_path, 0)) as file:
        events = json.load(file)["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    assert names == ["ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12"]
    assert any("Input Dims" in event.get("args", {}) for event in events)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (records.PROFILE_VARIABLE, "16", "steps is 25, too few to profile 16 after 10 of warm-up"),
        (records.PROFILE_VARIABLE, "many", "PACELINE_PROFILE is 'many'; give the number"),
        (records.DIRECTORY_VARIABLE, "", "PACELINE_PROFILE needs PACELINE_RECORDS"),
    ],
)
def test_what_cannot_be_profiled_is_refused_before_ranks_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(records.DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setenv(records.PROFILE_VARIABLE, "3")
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=words):
        measure(WORKLOAD, Config())
    assert not torch.distributed.is_initialized()


def test_a_gpu_is_watched_beside_the_host() -> None:
    cpu, cuda = ProfilerActivity.CPU, ProfilerActivity.CUDA
    assert activities(torch.device("cuda", 1)) == [cpu, cuda]
    assert activities(torch.device("cpu")) == [cpu]


def summary(*times_s: float, peak: float | None = None) -> str | None:
    meter = Meter(SimpleNamespace(step=lambda *args, **facts: None))
    for index, time_s in enumerate(times_s):
        meter.step(index, time_s, turn=index, tokens=10, model_flops=1000)
    return meter.summary(peak)


def test_the_summary_leaves_the_warm_up_out() -> None:
    text = summary(*[9.0] * 10, 1.0, 1.0, 4.0, peak=2000.0)
    assert text is not None
    assert text.splitlines() == [
        "3 steps after warm-up, the median of each:",
        "  time_s 1",
        "  tokens 10",
        "  model_flops 1000",
        "tokens_per_s 5",
        "mfu 0.2500",
    ]


def test_a_tenth_is_warm_up_where_that_is_more() -> None:
    text = summary(*[1.0] * 200)
    assert text is not None
    assert text.startswith("180 steps")
    assert text.endswith("mfu unknown")


def test_too_few_steps_have_no_summary() -> None:
    assert summary(*[1.0] * 10) is None
