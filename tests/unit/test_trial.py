"""How a trial ended and what its ranks recorded, as samples or as the reason for having none."""

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runners.ending import failure
from runners.guard import Ended, Outcome
from runners.launchers import local
from runners.parsers.torchrun import parse
from runners.samples import read_samples, with_throughput
from runners.trial import reproduction
from service.domain import Failure, FailureReason
from tests import factories


def step(index: int, time_s: Any = 0.01, *, rank: int = 0, **facts: Any) -> dict[str, Any]:
    head = {"v": 1, "kind": "step", "rank": rank, "at": 100.0 + index}
    return {**head, "step": index, "time_s": time_s, **facts}


def entry(kind: str, **facts: Any) -> dict[str, Any]:
    return {"v": 1, "kind": kind, "rank": 0, "at": 99.0, **facts}


def summary(num_steps: int) -> dict[str, Any]:
    return entry("summary", num_steps=num_steps)


def write(folder: Path, *ranks: Sequence[dict[str, Any] | str]) -> Path:
    """Files of ranks; those without a summary are given the one that fits."""
    for rank, entries in enumerate(ranks):
        records = [e for e in entries if not isinstance(e, str)]
        num_steps = sum(e["kind"] == "step" for e in records)
        is_closed = any(e["kind"] == "summary" for e in records)
        closing = [] if is_closed else [summary(num_steps)]
        lines = [
            e if isinstance(e, str) else json.dumps({**e, "rank": rank}) + "\n"
            for e in (*entries, *closing)
        ]
        (folder / f"rank-{rank}.jsonl").write_text("".join(lines))
    return folder


def samples(folder: Path, *ranks: Sequence[dict[str, Any] | str]) -> dict[str, Any]:
    found = read_samples(write(folder, *ranks), len(ranks), 0.0)
    assert not isinstance(found, Failure), found
    return {name: list(v) for name, v in found.items() if name != "startup_time_s"}


def refused(folder: Path, *ranks: Sequence[dict[str, Any] | str]) -> Failure:
    found = read_samples(write(folder, *ranks), len(ranks), 0.0)
    assert isinstance(found, Failure), found
    return found


def test_a_step_takes_as_long_as_its_slowest_rank(tmp_path: Path):
    found = samples(tmp_path, [step(0, 0.1), step(1, 0.2)], [step(0, 0.3), step(1, 0.1)])
    assert found == {"step_time_s": [0.3, 0.2]}


def test_a_step_that_not_every_rank_finished_is_left_out(tmp_path: Path):
    found = samples(tmp_path, [step(0), step(1), step(2)], [step(0), step(1)])
    assert len(found["step_time_s"]) == 2


def test_tokens_add_up_over_ranks(tmp_path: Path):
    ranks = [[step(0, tokens=5), step(1, tokens=7)], [step(0, tokens=1), step(1, tokens=0)]]
    assert samples(tmp_path, *ranks)["tokens_per_step"] == [6, 7]


def test_tokens_count_only_if_every_step_tells_them(tmp_path: Path):
    assert "tokens_per_step" not in samples(tmp_path, [step(0, tokens=5), step(1)])


def test_loss_is_the_mean_of_the_last_tenth_of_rank_0(tmp_path: Path):
    losses = [float(40 - n) for n in range(40)]
    ranks = [
        [step(n, loss=x) for n, x in enumerate(losses)],
        [step(n, loss=9.0) for n in range(40)],
    ]
    assert samples(tmp_path, *ranks)["loss"] == [pytest.approx(2.5)]


def test_memory_and_init_are_the_maximum_over_ranks(tmp_path: Path):
    ranks = [
        [
            entry("phase", name="process_group_init", time_s=init_s),
            entry("phase", name="compile", time_s=9.0),
            step(0),
            entry("memory", peak_rss_bytes=rss),
            entry("memory", peak_allocated_bytes=7, peak_reserved_bytes=9, allocator_retries=0),
        ]
        for init_s, rss in ((0.5, 2**40), (0.25, 2**40 + 1))
    ]
    found = read_samples(write(tmp_path, *ranks), 2, 0.0)
    assert isinstance(found, dict)
    assert list(found["peak_rss_bytes"]) == [2**40 + 1]
    assert found["peak_rss_bytes"].dtype == np.int64
    assert list(found["peak_allocated_bytes"]) == [7]
    assert list(found["peak_reserved_bytes"]) == [9]
    assert list(found["allocator_retries"]) == [0]
    assert list(found["process_group_init_s"]) == [0.5]


BUS = "busbw_bytes_per_s@1024"


def test_a_metric_that_steps_tell_is_that_of_the_worst_rank(tmp_path: Path):
    ranks = [
        [step(0, data_wait_s=0.1, **{BUS: 5.0}), step(1, data_wait_s=0.0, **{BUS: 6.0})],
        [step(0, data_wait_s=0.3, **{BUS: 7.0}), step(1, data_wait_s=0.2, **{BUS: 4.0})],
    ]
    found = samples(tmp_path, *ranks)
    assert found["data_wait_s"] == [0.3, 0.2]
    assert found[BUS] == [5.0, 4.0], "more is better, so the least counts"


def test_a_metric_of_the_trial_is_told_by_one_step(tmp_path: Path):
    ranks = [[step(0, compile_time_s=2.0), step(1)], [step(0, compile_time_s=3.0), step(1)]]
    assert samples(tmp_path, *ranks)["compile_time_s"] == [3.0]


def test_facts_that_are_not_a_steps_to_tell_are_left_alone(tmp_path: Path):
    facts = {"grad_norm": "high", "busbw_bytes_per_s@": None, "speed@5": True}
    facts |= {"tokens_per_s": 1e9, "peak_rss_bytes": 1, "static_flops": 1}
    assert set(samples(tmp_path, [step(0, **facts), step(1)])) == {"step_time_s"}


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([step(0, data_wait_s=0.1), step(1)], "step 1 of rank 0: data_wait_s is 'None'"),
        ([step(0, data_wait_s="0.1")], "data_wait_s is '0.1'. Every step of every rank"),
        ([step(0, data_wait_s=True)], "data_wait_s is 'True'"),
        ([step(0, data_wait_s=float("nan"))], "data_wait_s is 'nan'"),
        ([step(0, **{BUS: 0.0})], f"{BUS} is 0.0. It is compared by its logarithm"),
        ([step(0, **{f"fact_{n}": n for n in range(201)})], "201 facts by name; at most 200"),
    ],
)
def test_a_metric_that_cannot_be_used_is_named(
    tmp_path: Path, steps: list[dict[str, Any]], words: str
):
    failed = refused(tmp_path, steps)
    assert failed.reason is FailureReason.BAD_RECORDS
    assert words in failed.detail


def test_steps_outside_the_turns_do_not_count(tmp_path: Path):
    ranks = [[step(n, 0.1 + n, tokens=n) for n in range(num_steps)] for num_steps in (5, 4)]
    found = read_samples(write(tmp_path, *ranks), 2, 0.0, max_steps=2)
    assert isinstance(found, dict)
    assert list(found["step_time_s"]) == [0.1, 1.1]
    assert list(found["tokens_per_step"]) == [0, 2]


def test_huge_numbers_of_tokens_add_up(tmp_path: Path):
    ranks = [[step(0, tokens=2**62)] for _ in range(4)]
    assert samples(tmp_path, *ranks)["tokens_per_step"] == [2.0**64]


@pytest.mark.parametrize("told", [None, 0, 1, 3])
def test_a_rank_that_did_not_come_to_its_end_was_lost(tmp_path: Path, told: int | None):
    write(tmp_path, [step(0), step(1)], [step(0), step(1), summary(told or 0)])
    if told is None:
        path = tmp_path / "rank-1.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    found = read_samples(tmp_path, 2, 0.0)
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.BAD_RECORDS
    assert "Rank 1 was lost: it recorded 2 steps and " in found.detail
    assert ("no summary" if told is None else f"tells of {told}") in found.detail
    assert "`records.close()`" in found.detail


@pytest.mark.parametrize("indices", [(0, 0, 0), (0, 1, 1), (0, 2, 1), (-2, -1, -1)])
def test_steps_are_counted_upwards(tmp_path: Path, indices: tuple[int, ...]):
    found = refused(tmp_path, [step(index) for index in indices])
    assert found.reason is FailureReason.BAD_RECORDS
    assert f"rank-0.jsonl has step {indices[2]} after step " in found.detail


def test_a_rank_writes_for_itself(tmp_path: Path):
    found = refused(tmp_path, [step(0), json.dumps(step(1, rank=7)) + "\n"])
    assert found.reason is FailureReason.BAD_RECORDS
    assert "rank-0.jsonl has a record of rank '7'" in found.detail


@pytest.mark.parametrize("name", ["rank-1.jsonl", "rank-00.jsonl", "rank-\udcff.jsonl"])
def test_a_rank_that_the_case_does_not_have_is_named(tmp_path: Path, name: str):
    write(tmp_path, [step(0)])
    (tmp_path / name).touch()
    (tmp_path / "notes.txt").touch()
    found = read_samples(tmp_path, 1, 0.0)
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.BAD_RECORDS
    assert "the case's world_size is 1" in found.detail
    found.detail.encode()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_plain_file_holds_no_records(tmp_path: Path, kind: str):
    write(tmp_path, [step(0)])
    path = tmp_path / "rank-0.jsonl"
    path.rename(tmp_path / "other")
    make = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(tmp_path / "other"),
    }
    make[kind]()
    found = read_samples(tmp_path, 1, 0.0)
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.BAD_RECORDS
    assert "rank-0.jsonl cannot be read" in found.detail


def test_records_without_end_are_not_read(tmp_path: Path):
    with (tmp_path / "rank-0.jsonl").open("w") as file:
        file.truncate(2**40)
    found = read_samples(tmp_path, 1, 0.0)
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.BAD_RECORDS
    assert "Let the trainer take fewer steps or note less." in found.detail


def test_a_rank_without_steps_is_named(tmp_path: Path):
    found = refused(tmp_path, [step(0)], [entry("env")])
    assert found.reason is FailureReason.NO_STEPS
    assert "Rank 1 recorded no step" in found.detail


def test_a_rank_without_a_file_recorded_no_step(tmp_path: Path):
    found = read_samples(write(tmp_path, [step(0)]), 2, 0.0)
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.NO_STEPS


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf"), 1.7e308])
def test_a_loss_that_is_no_number(tmp_path: Path, loss: float):
    found = refused(tmp_path, [step(0, loss=1.0)], [step(0, loss=1.0), step(1, loss=loss)])
    assert found.reason is FailureReason.NAN_LOSS
    assert found.detail == f"The loss of rank 1 is {loss} at step 1."


@pytest.mark.parametrize(
    "bad",
    [
        '{"v": 1, "kind": "step", "rank": 0, "st',
        "step 1 took 0.1 s\n",
        "\0\0\0\0\n",
        "[1, 2]\n",
        step(1, kind="stride"),
        step(1, v=2),
        step(1, time_s=0),
        step(1, time_s=-0.1),
        step(1, time_s=float("nan")),
        step(1, time_s=float("inf")),
        step(1, time_s="fast"),
        step(1, time_s=None),
        step(1, at=None),
        step(1, tokens=-1),
        step(1, tokens="many"),
        step(1, tokens=[3]),
        step(1, tokens=10**30),
        step(1, loss="low"),
        step(1, loss=None),
        step(1, loss=[1.0]),
        step(1, loss=10**400),
        entry("memory", peak_rss_bytes=0),
        entry("memory", peak_rss_bytes=-5),
        entry("memory", peak_rss_bytes="much"),
        entry("memory", peak_allocated_bytes=10**30),
        entry("phase", name="process_group_init", time_s=float("nan")),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_record_makes_the_trial_unusable(tmp_path: Path, bad: dict[str, Any] | str):
    found = refused(tmp_path, [step(0, tokens=1), bad, step(2, tokens=1)])
    assert found.reason is FailureReason.BAD_RECORDS
    assert len(found.detail) < 300


def test_facts_we_do_not_know_are_let_be(tmp_path: Path):
    extra = [
        step(0, lr=None, name="é", nested={"a": [1]}),
        entry("phase", time_s=0.0),
        entry("memory", host_bytes="?"),
    ]
    assert samples(tmp_path, extra) == {"step_time_s": [0.01]}


def test_the_first_step_began_when_the_last_rank_did(tmp_path: Path):
    write(tmp_path, [entry("env"), step(0, 0.5)], [step(0, 0.25)])
    found = read_samples(tmp_path, 2, launched_at=90.0)
    assert isinstance(found, dict)
    assert list(found["startup_time_s"]) == [9.75]


def test_throughput_counts_the_steady_window_only():
    times = np.array([5.0, 0.1, 0.1, 0.2])
    tokens = np.array([100, 10, 10, 20])
    found = with_throughput({"step_time_s": times, "tokens_per_step": tokens}, warmup=1)
    assert list(found["tokens_per_s"]) == [pytest.approx(100.0)]
    assert list(found["steps_per_s"]) == [pytest.approx(7.5)], "the other side may tell no tokens"
    assert "tokens_per_step" not in found
    alone = with_throughput({"step_time_s": times}, warmup=1)
    assert list(alone["steps_per_s"]) == [pytest.approx(7.5)]
    assert "tokens_per_s" not in alone


def test_a_trial_that_reports_no_token_at_all_is_counted_in_steps():
    given = {"step_time_s": np.array([0.1, 0.1]), "tokens_per_step": np.array([0, 0])}
    found = with_throughput(given, warmup=0)
    assert list(found["steps_per_s"]) == [pytest.approx(10.0)]
    assert "tokens_per_s" not in found


def ended(how: str, exit_code: int | None = None, **values: Any) -> Outcome:
    return Outcome(ended=Ended(how), exit_code=exit_code, wall_s=12.0, **values)


@pytest.mark.parametrize(
    ("outcome", "reason", "words"),
    [
        (ended("not_started", detail="No such file"), "launch_failed", "No such file"),
        (ended("deadline", -15), "deadline", "after 12 s"),
        (ended("stalled", -15), "stalled", "recorded nothing any more"),
        (ended("released", -15), "peer_failed", "together with the other side"),
        (ended("unguarded", detail="Its guard ended with -9."), "internal", "guard ended"),
        (ended("exited", -9), "killed", "It was killed by signal 9"),
        (ended("exited", -11), "crashed", "It was killed by signal 11."),
        (ended("exited", 2), "crashed", "It exited with 2. some log"),
    ],
)
def test_how_a_trial_ended(outcome: Outcome, reason: str, words: str):
    found = failure(outcome, "some log\n", parse(""))
    assert found is not None
    assert found.reason == reason
    assert words in found.detail


def test_a_program_that_ends_by_itself_says_why_last():
    log = "counting\npython -m workloads.static: error: training.ddp needs two ranks\n\n"
    found = failure(ended("exited", 1), log, parse(log))
    assert found is not None
    assert found.detail.endswith(
        "exited with 1. python -m workloads.static: error: training.ddp needs two ranks"
    )


def test_a_good_end():
    log = "MemoryError in the log of a success"
    assert failure(ended("exited", 0), log, parse(log)) is None


def test_what_a_program_prints_can_be_stored():
    log = "ValueError: \0 and \ud800 and \x1b[31mred\x1b[0m\n"
    found = failure(ended("exited", 1), log, parse(log))
    assert found is not None
    assert "ValueError" in found.detail
    assert not set(found.detail) & {"\0", "\ud800", "\x1b"}


def test_a_trial_can_be_reproduced_by_hand(tmp_path: Path):
    environment = {
        "PATH": "/usr/bin",
        "HOME": str(tmp_path),
        "NCCL_ALGO": "Ring Tree",
        "PACELINE_RECORDS": "/records",
        "PACELINE_TURN_SOCKET": "/socket",
    }
    spec = factories.launch_spec(
        tmp_path,
        environment=environment,
        working_dir=Path("/work trees/a"),
        program=("train.py", "--text", "it's"),
    )
    words = shlex.split(reproduction(local, spec))
    assert words[:4] == ["cd", "/work trees/a", "&&", "env"]
    assert words[4:6] == ["GLOO_SOCKET_IFNAME=lo", "NCCL_ALGO=Ring Tree"]
    assert words[6] == "/opt/env/bin/python"
    assert words[-3:] == ["train.py", "--text", "it's"]


def test_a_built_in_workload_is_reproduced_in_a_folder_that_exists(tmp_path: Path):
    spec = factories.launch_spec(tmp_path, working_dir=tmp_path / "empty")
    assert reproduction(local, spec).startswith('cd "$(mktemp -d)" && env ')
