"""Telemetry of a real trial, whose rank burns CPU in a session of its own, as torchrun's do."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.launchers import local
from runners.pair import measure_solo
from service.domain import Case, Role
from service.usecases.recording import TrialResult
from tests.integration.test_lockstep import make_bench

# 40 steps that burn a second together.
TRAINER = """
import time
from workloads.records import Records
from workloads.turns import Turns

with Records() as records:
    turns = Turns(40, records)
    for number in range(1, 100):
        if not turns.step():
            break
        while time.process_time() < number / 40:
            pass
"""
AGENT = (
    "import subprocess, sys\n"
    "sys.exit(subprocess.run(sys.argv[1:], start_new_session=True).returncode)"
)


@pytest.fixture(autouse=True)
def agent(monkeypatch: pytest.MonkeyPatch) -> None:
    python = sys.executable
    monkeypatch.setattr(local, "command", lambda spec: [python, "-c", AGENT, python, *spec.program])


def measured(folder: Path, trainer: str) -> TrialResult:
    bench = make_bench(folder)
    (folder / "train.py").write_text(trainer)
    return measure_solo(bench, Case(name="burner", script="train.py", world_size=1), Role.BASELINE)


def kept(folder: Path, trial: TrialResult) -> list[dict[str, Any]]:
    """The samples in the artifact."""
    (file,) = [file for file in trial.files if file.kind == "telemetry"]
    assert file.name == "telemetry.jsonl"
    lines = (folder / "store" / file.path).read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_trial_s_telemetry_is_kept_and_measured(tmp_path: Path):
    trial = measured(tmp_path, TRAINER)
    assert trial.failure is None
    assert trial.samples["cpu_time_s"].item() >= 0.8
    assert 0.0 <= trial.samples["foreign_cpu_ratio"].item() <= 1.0
    samples = kept(tmp_path, trial)
    assert samples[0]["cpu_time_s"] < samples[-1]["cpu_time_s"] == trial.samples["cpu_time_s"]
    assert all(sample["available_memory_bytes"] > 0 for sample in samples)


def test_a_trial_that_fails_leaves_its_telemetry_too(tmp_path: Path):
    trial = measured(tmp_path, "raise SystemExit(3)")
    assert trial.failure is not None
    assert not trial.samples
    assert kept(tmp_path, trial)[-1]["cpu_time_s"] > 0
