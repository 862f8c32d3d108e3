"""A pair in lock-step, launched for real but without torchrun: one torch-free rank a side."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from runners.artifacts import RunArtifacts
from runners.bench import Bench, PreparedSide
from runners.launchers import local
from runners.lockstep import measure_lockstep
from runners.spec import Limits
from service.artifacts import ArtifactStore
from service.domain import Case, FailureReason, Role

ROOT = Path(__file__).parents[2]
STRAY_S = 77.0  # of a step that no turn was handed out for

TRAINER = f"""
import time
from workloads.records import Records
from workloads.turns import Turns

with Records() as records:
    turns = Turns(240, records)
    index = 0
    for epoch in range(3):
        for batch in range(200):
            if not turns.step():
                break
            time.sleep(0.002)
            turns.note(tokens=8)
            index += 1
    for stray in range(100):
        records.step(index + stray, {STRAY_S}, tokens=8)
"""


def make_bench(folder: Path) -> Bench:
    (folder / "train.py").write_text(TRAINER)
    side = PreparedSide(
        python=Path(sys.executable), worktree=folder, environment={}, arguments=(), software={}
    )
    return Bench(
        sides=dict.fromkeys(Role, side),
        launcher=local,
        library=ROOT,
        limits=Limits(start_s=60.0, stall_s=30.0, kill_grace_s=5.0),
        artifacts=RunArtifacts(ArtifactStore(str(folder / "store")), "runs/1"),
        slot_id=UUID(int=7),
        check=lambda: None,
    )


def test_only_steps_that_a_turn_was_handed_out_for_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "command", lambda spec: [str(spec.python), *spec.program])
    case = Case(name="stray", script="train.py", world_size=1, timeout_s=100)
    pair = measure_lockstep(make_bench(tmp_path), case, Role.BASELINE, seed=7)
    assert pair.invalid is None
    counts = {len(trial.samples["step_time_s"]) for trial in pair.trials.values()}
    assert len(counts) == 1, "as many on either side"
    assert 200 < counts.pop() <= 240
    for trial in pair.trials.values():
        assert trial.samples["step_time_s"].max() < STRAY_S
        assert {file.name for file in trial.files} == {"log.txt", "telemetry.jsonl", "rank-0.jsonl"}


def test_a_killed_turn_server_makes_the_pair_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "command", lambda spec: [str(spec.python), *spec.program])

    def kill_server() -> None:
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):  # nor a zombie, which has no command line
                if "runners.turnserver" in child.cmdline():
                    child.kill()

    bench = replace(make_bench(tmp_path), check=kill_server)
    case = Case(name="stray", script="train.py", world_size=1, timeout_s=100)
    pair = measure_lockstep(bench, case, Role.BASELINE, seed=7)
    assert pair.invalid is not None
    assert pair.invalid.reason is FailureReason.INTERNAL
    assert "was killed" in pair.invalid.detail
