"""The trainers of the end-to-end tests do what their names say, one rank at a time."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from examples.tinylm.make_repository import git
from tests.integration.trainers import CHANGES, make_trainer_repository
from workloads.records import read


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trainers") / "repository"
    make_trainer_repository(directory, [*CHANGES, "bad_manifest"])
    return directory


def run_rank(repository: Path, variant: str, out: Path, rank: int = 1) -> int:
    tree = out / variant
    git(repository, "worktree", "add", "--quiet", "--detach", str(tree), variant)
    environment = {"PACELINE_RECORDS": str(out), "RANK": str(rank), "WORLD_SIZE": "2"}
    command = [sys.executable, "-S", "train.py", "--steps", "30"]
    return subprocess.run(command, cwd=tree, env=os.environ | environment, timeout=5).returncode


@pytest.mark.parametrize(
    ("variant", "exit_code", "num_steps"),
    [
        ("main", 0, 30),
        ("ok", 0, 30),
        ("slow", 0, 30),
        ("nan_loss", 0, 30),
        ("no_step", 0, 0),
        ("exit3", 3, 20),
        ("sigkill", -9, 20),
    ],
)
def test_how_a_variant_ends(
    repository: Path, tmp_path: Path, variant: str, exit_code: int, num_steps: int
) -> None:
    assert run_rank(repository, variant, tmp_path) == exit_code
    records = list(read(tmp_path / "rank-1.jsonl"))
    assert sum(record["kind"] == "step" for record in records) == num_steps
    assert (records[-1]["kind"] == "summary") == (exit_code == 0)
    is_nan = math.isnan(records[-3].get("loss", 0)) if num_steps else False
    assert is_nan == (variant == "nan_loss")


def test_one_rank_hangs_and_the_other_does_not(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_rank(repository, "hang", tmp_path)
    git(repository, "worktree", "remove", "--force", str(tmp_path / "hang"))
    assert run_rank(repository, "hang", tmp_path, rank=0) == 0


def test_half_a_record_is_no_record(repository: Path, tmp_path: Path) -> None:
    assert run_rank(repository, "half_record", tmp_path) == 0
    with pytest.raises(ValueError, match=r"rank-1\.jsonl, line 34: not a record"):
        list(read(tmp_path / "rank-1.jsonl"))


def test_slow_asks_for_fifteen_percent_more_work() -> None:
    old, new = (int(text.split()[-1]) for text in CHANGES["slow"])
    assert new / old == pytest.approx(1.15)


def test_only_bad_manifest_has_a_bad_manifest(repository: Path) -> None:
    case = yaml.safe_load(git(repository, "show", "main:paceline.yml"))["cases"][0]
    assert case["args"] == ["--steps", "150"]
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(git(repository, "show", "bad_manifest:paceline.yml"))
