"""The two sides of a planned run, checked out and set up from a real repository."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from runners.bench import PreparedSide
from runners.sides import prepare_sides
from service.db.session import Sessions
from service.domain import Intent, Role
from tests.conftest import on_sqlite
from tests.integration.test_planning import MANIFEST, Planner

pytestmark = on_sqlite

SETUP = (
    """setup: {install: ["sh -c 'echo set up >> built; echo built > train.py; mkdir empty'"]}\n"""
)


@pytest.fixture
def planner(sessions: Sessions, tmp_path: Path) -> Planner:
    made = Planner(sessions, tmp_path)
    made.commit(MANIFEST + SETUP, MANIFEST + SETUP)
    return made


def prepared(planner: Planner, **body) -> Mapping[Role, PreparedSide]:
    run_id = planner.plan(**body)
    return prepare_sides(planner.run(run_id), planner.worker, lambda: None)


def calibration(planner: Planner) -> Mapping[Role, PreparedSide]:
    return prepared(planner, candidate="main", intent=Intent.CALIBRATE)


def test_a_side_against_itself_has_two_of_everything(planner: Planner):
    """In lock-step both are alive: restoring one must not pull files from under the other."""
    baseline, candidate = calibration(planner).values()
    assert baseline.worktree != candidate.worktree
    assert baseline.python != candidate.python
    assert len(str(baseline.worktree)) == len(str(candidate.worktree))
    (baseline.worktree / "checkpoint.pt").touch()
    candidate.restore()
    assert (baseline.worktree / "checkpoint.pt").exists()


def test_every_trial_finds_what_the_set_up_left(planner: Planner):
    for _ in range(2):  # the second run takes up what the first prepared
        side = prepared(planner)[Role.BASELINE]
        for _ in range(2):
            side.restore()
            assert (side.worktree / "built").read_text() == "set up\n"
            assert (side.worktree / "train.py").read_text() == "built\n"
            (side.worktree / "built").write_text("changed")
            (side.worktree / "train.py").unlink()
            (side.worktree / "out").mkdir()
            (side.worktree / "empty").rmdir()
            shutil.rmtree(side.worktree / ".git", ignore_errors=True)
            (side.worktree / ".git").unlink(missing_ok=True)


def test_a_machine_that_did_not_plan_the_run(planner: Planner):
    run_id = planner.plan()
    shutil.rmtree(planner.worker.data_dir / "mirrors")
    sides = prepare_sides(planner.run(run_id), planner.worker, lambda: None)
    assert all((side.worktree / "built").exists() for side in sides.values())
