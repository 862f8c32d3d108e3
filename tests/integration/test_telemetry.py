"""Telemetry of a real trial, whose rank burns CPU in a session of its own, as torchrun's do."""

import json
import sys
from pathlib import Path

import pytest

from runners.launchers import local
from runners.pair import measure_solo
from service.domain import Case, Role
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


def test_a_trial_s_telemetry_is_kept_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    python = sys.executable
    monkeypatch.setattr(local, "command", lambda spec: [python, "-c", AGENT, python, *spec.program])
    bench = make_bench(tmp_path)
    (tmp_path / "train.py").write_text(TRAINER)
    trial = measure_solo(bench, Case(name="burner", script="train.py", world_size=1), Role.BASELINE)
    assert trial.failure is None
    assert trial.samples["cpu_time_s"].item() >= 0.8
    assert 0.0 <= trial.samples["foreign_cpu_ratio"].item() <= 1.0
    (file,) = [file for file in trial.files if file.kind == "telemetry"]
    text = (tmp_path / "store" / file.path).read_text()
    samples = [json.loads(line) for line in text.splitlines()]
    assert file.name == "telemetry.jsonl"
    assert samples[0]["cpu_time_s"] < samples[-1]["cpu_time_s"] == trial.samples["cpu_time_s"]
    assert all(sample["available_memory_bytes"] > 0 for sample in samples)
