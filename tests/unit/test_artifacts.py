"""What is kept of a trial's files: what its own ranks wrote, and no more of it than is useful."""

import os
from pathlib import Path

import pytest

from runners.artifacts import RunArtifacts
from runners.plainfile import read_plain
from service.artifacts import ArtifactStore


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    (folder / "records").mkdir(parents=True)
    (folder / "log.txt").write_text("log")
    (folder / "telemetry.jsonl").write_text("{}")
    for rank in range(2):
        (folder / "records" / f"rank-{rank}.jsonl").write_text(f"rank {rank}")
    return folder


def kept(scratch: Path) -> dict[str, str]:
    """Text of what is stored, by name."""
    root = scratch.parent / "store"
    store = RunArtifacts(ArtifactStore(str(root)), "runs/1")
    log, telemetry = scratch / "log.txt", scratch / "telemetry.jsonl"
    files = store.keep("trial", log, telemetry, scratch / "records", world_size=2)
    assert {file.path for file in files} == {
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()
    }
    return {file.name: (root / file.path).read_text() for file in files}


def test_log_telemetry_and_records_are_kept(scratch: Path):
    records = {"rank-0.jsonl": "rank 0", "rank-1.jsonl": "rank 1"}
    everything = {"log.txt": "log", "telemetry.jsonl": "{}"} | records
    assert kept(scratch) == everything


def test_what_no_rank_of_the_case_wrote_is_not_kept(scratch: Path):
    records = scratch / "records"
    (records / "rank-7.jsonl").symlink_to("/etc/hostname")
    (records / "rank-2.jsonl").write_text("a rank too many")
    (records / os.fsdecode(b"rank-\xff.jsonl")).write_text("no rank")
    assert set(kept(scratch)) == {"log.txt", "telemetry.jsonl", "rank-0.jsonl", "rank-1.jsonl"}


@pytest.mark.timeout(20)
def test_only_plain_files_are_kept(scratch: Path):
    records = scratch / "records"
    ours = (scratch / "log.txt", scratch / "telemetry.jsonl")
    for path in (*ours, records / "rank-0.jsonl", records / "rank-1.jsonl"):
        path.unlink()
    for path in ours:
        path.symlink_to("/etc/hostname")
    (records / "rank-0.jsonl").mkdir()
    os.mkfifo(records / "rank-1.jsonl")
    assert kept(scratch) == {}


def test_of_a_long_file_both_ends_are_read_and_it_says_so(tmp_path: Path):
    path = tmp_path / "log.txt"
    path.write_text("a" * 60 + "b" * 60)
    assert read_plain(path, 120) == path.read_bytes()
    note = b"\n[Paceline left out 20 bytes after the first 50.]\n"
    assert read_plain(path, 100) == b"a" * 50 + b"b" * 50 + note
