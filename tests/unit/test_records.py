import json
import math
import os
from pathlib import Path

import pytest

from workloads import records
from workloads.records import Records, rank_file, read

STEP = '{"v": 1, "kind": "step", "rank": 0, "at": 1.0, "step": 0, "time_s": 0.5}'


def written(directory: Path, *lines: str) -> Path:
    path = directory / "rank-0.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_rank_writes_its_own_file(tmp_path: Path) -> None:
    with Records(str(tmp_path), rank=3) as log:
        log.phase("process_group_init", 0.41)
        log.step(0, 0.013, tokens=1024, loss=5.5)
        log.memory(peak_allocated_bytes=7)

    lines = list(read(rank_file(tmp_path, 3)))
    kinds = [line["kind"] for line in lines]
    assert kinds == ["env", "phase", "step", "memory", "memory", "summary"]
    assert {(line["v"], line["rank"]) for line in lines} == {(1, 3)}
    assert lines[2] | {"at": 0} == {
        "v": 1,
        "kind": "step",
        "rank": 3,
        "at": 0,
        "step": 0,
        "time_s": 0.013,
        "tokens": 1024,
        "loss": 5.5,
    }
    assert lines[4]["peak_rss_bytes"] > 1_000_000
    assert lines[5]["num_steps"] == 1


def test_directory_and_rank_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(records.DIRECTORY_VARIABLE, str(tmp_path / "new"))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    Records().close()
    assert next(read(tmp_path / "new" / "rank-1.jsonl"))["world_size"] == 2


def test_without_a_directory_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(records.DIRECTORY_VARIABLE, raising=False)
    with Records() as log:
        log.step(0, 0.1)


def test_a_step_can_be_read_before_the_rank_ends(tmp_path: Path) -> None:
    log = Records(str(tmp_path), rank=0)
    log.step(0, 0.1)
    assert [line["kind"] for line in read(rank_file(tmp_path, 0))] == ["env", "step"]
    log.close()


def test_a_rank_that_fails_writes_no_summary(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Records(str(tmp_path), rank=0):
        raise RuntimeError
    assert [line["kind"] for line in read(rank_file(tmp_path, 0))] == ["env"]


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'guess' is none of env, step"):
        Records(str(tmp_path), rank=0).write("guess")


@pytest.mark.parametrize("name", ["v", "kind", "rank", "at"])
def test_a_field_of_the_head_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(records.DIRECTORY_VARIABLE, raising=False)
    for log in (Records(str(tmp_path), rank=0), Records()):
        with pytest.raises(ValueError, match=f"a record has its own {name}: rename yours"):
            log.step(0, 0.1, **{name: 7})


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_may_be_no_number(tmp_path: Path, loss: float) -> None:
    with Records(str(tmp_path), rank=0) as log:
        log.step(0, 0.1, loss=loss)
    step = list(read(rank_file(tmp_path, 0)))[1]
    assert repr(step["loss"]) == repr(loss)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (STEP[:30], "Invalid control character"),
        ("Epoch 3: 100%|####| 20/20", "Expecting value"),
        ("", "Expecting value"),
        ("3", "not subscriptable"),
        ('"text"', "indices must be"),
        ('{"v": 1}', "'kind'"),
        ('{"kind": "env"}', "'v'"),
        ('{"v": 2, "kind": "env"}', "version 2, expected 1"),
        ('{"v": 1, "kind": "guess"}', "unknown kind 'guess'"),
        ('{"v": 1, "kind": "step", "time_s": 0.5}', "'step'"),
        ('{"v": 1, "kind": "step", "step": "x", "time_s": 0.5}', "invalid literal"),
        ('{"v": 1, "kind": "step", "step": Infinity, "time_s": 0.5}', "infinity"),
        ('{"v": 1, "kind": "step", "step": 0, "time_s": null}', "float"),
        ('{"v": 1, "kind": "step", "step": 0, "time_s": NaN}', "time_s is nan"),
        ('{"v": 1, "kind": "step", "step": 0, "time_s": -0.1}', "time_s is -0.1"),
        ('{"v": 1, "kind": "phase", "name": "setup", "time_s": Infinity}', "time_s is inf"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = written(tmp_path, STEP, line, STEP)
    with pytest.raises(ValueError, match=rf"rank-0.jsonl, line 2: not a record: .*({reason})"):
        list(read(path))


def test_bytes_that_are_no_text_are_no_record(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    path.write_bytes(STEP.encode() + b"\n\xff\xfe\x00\n")
    with pytest.raises(ValueError, match="line 2"):
        list(read(path))


def test_what_precedes_half_a_line_is_still_read(tmp_path: Path) -> None:
    lines = read(written(tmp_path, STEP, STEP[:40]))
    assert next(lines) == json.loads(STEP)
    with pytest.raises(ValueError, match="line 2"):
        next(lines)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_only_a_plain_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "rank-0.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "other").write_text(STEP)
        path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"rank-0\.jsonl"):
        list(read(path))


def test_only_a_newline_ends_a_record(tmp_path: Path) -> None:
    text = '{"v": 1, "kind": "env", "gpu": "a\u2028b\u0085c"}\r'
    assert next(read(written(tmp_path, text)))["gpu"] == "a\u2028b\u0085c"
