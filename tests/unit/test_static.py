"""What a static trial counted, and how one is started."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runners.bench import Bench, PreparedSide
from runners.launchers import local
from runners.samples import Reading, read_samples
from runners.spec import LaunchSpec, Limits
from runners.static import read_counts
from service.domain import Case, Failure, FailureReason, Kind, Role
from tests import factories

METRICS = {"static_flops": 2**50, "static_num_collectives@all_gather": 65}
OPERATORS = {"aten.mm": 87, "c10d._allgather_base_": 65}


def entry(kind: str, **facts: Any) -> dict[str, Any]:
    return {"v": 1, "kind": kind, "rank": 0, "at": 99.0, **facts}


def static(**facts: Any) -> dict[str, Any]:
    return entry("static", **{"metrics": METRICS, "operators": OPERATORS, **facts})


def read(folder: Path, *entries: dict[str, Any], is_closed: bool = True) -> Reading | Failure:
    closing = [entry("summary", num_steps=0)] if is_closed else []
    lines = [json.dumps(record) + "\n" for record in (entry("env"), *entries, *closing)]
    (folder / "rank-0.jsonl").write_text("".join(lines))
    return read_counts(folder)


def test_counts_and_operators(tmp_path: Path):
    found = read(tmp_path, static(), entry("memory", peak_rss_bytes=2**30))
    assert isinstance(found, Reading)
    assert {name: list(values) for name, values in found.samples.items()} == {
        "static_flops": [2**50],
        "static_num_collectives@all_gather": [65],
    }, "the memory of the process that counts is not what it counts"
    assert found.operators == OPERATORS


def test_a_count_may_be_none(tmp_path: Path):
    found = read(tmp_path, static(metrics={"static_flops": 0}, operators={}))
    assert isinstance(found, Reading)
    assert list(found.samples["static_flops"]) == [0]


def test_a_ratio_is_no_whole_number(tmp_path: Path):
    found = read(tmp_path, static(metrics={**METRICS, "static_bubble_ratio": 3 / 11}))
    assert isinstance(found, Reading)
    assert list(found.samples["static_bubble_ratio"]) == [3 / 11]


def test_what_we_do_not_know_is_let_be(tmp_path: Path):
    metrics = {**METRICS, "static_luck": "high", "step_time_s": None, "static_flops@ ": -1}
    found = read(tmp_path, static(metrics=metrics, device="meta"))
    assert isinstance(found, Reading)
    assert found.samples.keys() == METRICS.keys()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "wrote 0 records of the kind static"),
        ([static(), static()], "wrote 2 records of the kind static"),
        ([entry("static", operators={})], "metrics of a static record is 'None'"),
        ([entry("static", metrics=METRICS)], "operators of a static record is 'None'"),
        ([static(metrics=[1])], "metrics of a static record is '[1]'"),
        ([static(metrics={})], "has no static_flops"),
        ([static(metrics={"static_flops": 1.5})], "static_flops of a static record is '1.5'"),
        ([static(metrics={"static_flops": True})], "is 'True', no count"),
        ([static(metrics={**METRICS, "static_bubble_ratio": 1.5})], "is '1.5', no ratio"),
        ([static(metrics={**METRICS, "static_bubble_ratio": "low"})], "is 'low', no ratio"),
        ([static(metrics={"static_flops": -1})], "is '-1', no count"),
        ([static(metrics={"static_flops": 2**63})], "no count"),
        ([static(metrics={**METRICS, **{f"n{i}": 1 for i in range(200)}})], "202 entries; 200"),
        ([static(operators={"aten.mm": None})], "aten.mm of a static record is 'None'"),
        ([static(operators={"a\0b": 1})], "an operator of a static record is called 'a\\x00b'"),
        ([static(operators={"a" * 201: 1})], "an operator of a static record is called"),
    ],
)
def test_what_is_no_count_makes_the_trial_unusable(
    tmp_path: Path, entries: list[dict[str, Any]], words: str
):
    found = read(tmp_path, *entries)
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.BAD_RECORDS
    assert words in found.detail


def test_a_process_that_did_not_come_to_its_end_counted_nothing(tmp_path: Path):
    found = read(tmp_path, static(), is_closed=False)
    assert isinstance(found, Failure)
    assert "Rank 0 was lost" in found.detail


def test_a_measured_step_tells_no_counts(tmp_path: Path):
    step = entry("step", step=0, time_s=0.1, static_flops=5)
    read(tmp_path, step, entry("summary", num_steps=1), is_closed=False)
    found = read_samples(tmp_path, 1, 0.0)
    assert isinstance(found, dict)
    assert "static_flops" not in found


def spec(folder: Path, case: Case) -> LaunchSpec:
    """What the bench has launched of the baseline."""
    side = PreparedSide(
        python=Path("/opt/env/bin/python"),
        worktree=folder / "worktree",
        environment={},
        arguments=("--seq-len=8",),
        software={},
    )
    bench = Bench(
        sides={Role.BASELINE: side},
        launcher=local,
        library=folder / "library",
        limits=Limits(start_s=180.0, stall_s=60.0, kill_grace_s=10.0),
        artifacts=None,  # type: ignore[arg-type]
        slot_id=UUID(int=7),
        check=lambda: None,
    )
    return bench.spec(case, Role.BASELINE, "7d3c", folder, {})


def test_a_static_case_is_one_plain_process(tmp_path: Path):
    case = factories.case(
        script=None,
        workload="training.fsdp",
        kind=Kind.STATIC,
        world_size=64,
        arguments=("--model=8b",),
    )
    found = spec(tmp_path, case)
    assert local.command(found) == [
        "/opt/env/bin/python",
        "-m",
        "workloads.static",
        "training.fsdp",
        "--model=8b",
        "--seq-len=8",
        "--world-size=64",
    ]
    assert found.world_size == 1, "one rank writes records"
    assert found.working_dir == tmp_path / "empty"
    assert found.limits.stall_s == 0, "it is silent until it has counted"


def test_a_measured_case_is_watched(tmp_path: Path):
    case = factories.case(script=None, workload="training.ddp", arguments=("--steps=9",))
    found = spec(tmp_path, case)
    assert local.command(found)[-5:] == [
        "-m",
        "workloads",
        "training.ddp",
        "--steps=9",
        "--seq-len=8",
    ]
    assert (found.world_size, found.limits.stall_s) == (2, 60.0)


def test_a_script_runs_in_its_worktree(tmp_path: Path):
    found = spec(tmp_path, factories.case())
    assert (found.working_dir, found.program) == (
        tmp_path / "worktree",
        ("train.py", "--seq-len=8"),
    )
