"""Real runs through the whole service: HTTP, Celery, SQL, git, torchrun with two ranks, turns.

The measured programs are tests/integration/trainers.py: torch-free ranks with a fault each.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.config import Settings
from service.db import migration
from service.db.session import make_engine
from service.main import create_app
from tests.integration.trainers import make_trainer_repository

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

VARIANTS = (
    "ok",
    "slow",
    "exit3",
    "hang",
    "sigkill",
    "nan_loss",
    "half_record",
    "no_step",
    "bad_manifest",
)
_LIMIT_S = 600.0


@dataclass
class Service:
    """A running service with the trainers' repository as its project."""

    client: TestClient
    scratch: Path

    def run(self, candidate: str, baseline: str = "main", **body: Any) -> dict[str, Any]:
        """Ask for a run and wait for its end."""
        asked = {"project": "trainers", "baseline": baseline, "candidate": candidate, **body}
        response = self.client.post("/runs", json=asked)
        assert response.status_code == 202, response.text
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline:
            run: dict[str, Any] = self.client.get(response.headers["location"]).json()
            if run["status"] in ("finished", "failed", "cancelled"):
                assert not alive(self.scratch), "processes of a trial are still alive"
                return run
            time.sleep(0.2)
        raise AssertionError(f"the run did not end: {run['status']}, {run['headline']}")

    def log(self, trial: dict[str, Any]) -> str:
        """What a trial printed."""
        artifact = next(file for file in trial["artifacts"] if file["kind"] == "log")
        return self.client.get(f"/ui/artifacts/{artifact['id']}?raw=1").text


def alive(scratch: Path) -> list[int]:
    """Processes of trials whose scratch lies in this folder."""
    mark = f"PACELINE_RECORDS={scratch}/".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(mark) for variable in environment):
            found.append(int(folder.name))
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    make_trainer_repository(folder / "trainers", VARIANTS)
    settings = Settings(data_dir=folder / "data", stall_s=6, kill_grace_s=3, start_s=60)
    settings.data_dir.mkdir()
    migration.upgrade(make_engine(settings.resolved_database_url))
    with (
        pytest.MonkeyPatch.context() as patch,
        TestClient(create_app(settings), base_url="http://localhost") as client,
    ):
        patch.setattr(tempfile, "tempdir", str(folder))
        source = {"name": "trainers", "source": str(folder / "trainers")}
        assert client.post("/projects", json=source).status_code == 201
        yield Service(client, folder)


def verdicts(run: dict[str, Any]) -> dict[str, str]:
    return {item["metric"]: item["verdict"] for item in run["comparisons"] if item["is_gating"]}


def test_an_equal_candidate_is_cleared(service: Service) -> None:
    run = service.run("ok")
    assert run["status"] == "finished"
    assert run["verdict"] in ("no_change", "inconclusive"), run["headline"]
    assert all(not pair["invalid_reason"] for pair in run["pairs"])
    assert {trial["role"] for trial in run["trials"]} == {"baseline", "candidate"}
    files = [{file["name"] for file in trial["artifacts"]} for trial in run["trials"]]
    assert all({"log.txt", "telemetry.jsonl", "rank-0.jsonl"} <= names for names in files)
    assert run["environments"][0]["hard"]["num_cpus"] > 0
    assert run["device_s"] > 0


def test_a_slow_candidate_is_a_regression_in_time(service: Service) -> None:
    run = service.run("slow")
    assert run["verdict"] == "regression", run["headline"]
    assert verdicts(run)["step_time_s"] == "regression"
    step_time = next(i for i in run["comparisons"] if i["metric"] == "step_time_s")
    assert 0.05 < step_time["effect"] < 0.3
    assert step_time["low"] < step_time["effect"] < step_time["high"]
    assert step_time["looks"]
    assert step_time["reasons"]


def test_swapped_sides_are_an_improvement(service: Service) -> None:
    run = service.run("main", baseline="slow")
    assert verdicts(run)["step_time_s"] == "improvement"
    assert run["verdict"] != "regression"


@pytest.mark.parametrize(
    ("variant", "reason", "words"),
    [
        ("exit3", "crashed", "exited with 3"),
        ("sigkill", "killed", "signal 9"),
        ("hang", "stalled", "recorded nothing"),
        ("nan_loss", "nan_loss", "nan"),
    ],
)
def test_a_candidate_that_fails_twice_is_broken(
    service: Service, variant: str, reason: str, words: str
) -> None:
    run = service.run(variant)
    assert run["status"] == "finished"
    assert run["verdict"] == "broken", run["headline"]
    assert words in run["headline"]
    failed = [t for t in run["trials"] if t["role"] == "candidate" and t["failure_reason"]]
    assert {trial["failure_reason"] for trial in failed} == {reason}
    assert any(trial["pair"] is None for trial in failed), "it was tried once alone"
    assert all(service.log(trial) is not None for trial in failed)


@pytest.mark.parametrize(
    ("variant", "reason"), [("half_record", "bad_records"), ("no_step", "no_steps")]
)
def test_a_candidate_that_cannot_be_measured_is_invalid(
    service: Service, variant: str, reason: str
) -> None:
    run = service.run(variant)
    assert run["verdict"] == "invalid", run["headline"]
    failed = [trial for trial in run["trials"] if trial["role"] == "candidate"]
    assert reason in {trial["failure_reason"] for trial in failed}


def test_a_baseline_that_fails_is_missing(service: Service) -> None:
    run = service.run("main", baseline="exit3")
    assert run["verdict"] == "missing", run["headline"]
    assert "baseline" in run["headline"]


def test_a_malformed_manifest_fails_the_run_and_names_the_line(service: Service) -> None:
    run = service.run("main", baseline="bad_manifest")
    assert (run["status"], run["failure_reason"]) == ("failed", "bad_manifest")
    assert run["verdict"] is None
    assert "line" in run["failure_detail"]


def test_an_unknown_revision_fails_the_run(service: Service) -> None:
    run = service.run("no-such-branch")
    assert (run["status"], run["failure_reason"]) == ("failed", "unknown_revision")
    assert "no-such-branch" in run["failure_detail"]


def test_an_unknown_case_fails_the_run(service: Service) -> None:
    run = service.run("ok", cases=["nothing"])
    assert (run["status"], run["failure_reason"]) == ("failed", "no_such_case")


def test_a_running_run_is_cancelled_and_leaves_no_process(service: Service) -> None:
    asked = {"project": "trainers", "baseline": "main", "candidate": "ok"}
    location = service.client.post("/runs", json=asked).headers["location"]
    deadline = time.monotonic() + 60
    while service.client.get(location).json()["status"] != "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert service.client.post(f"{location}/cancel").status_code == 202
    while (run := service.client.get(location).json())["status"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert run["status"] == "cancelled"
    assert run["verdict"] is None
    assert not alive(service.scratch)
