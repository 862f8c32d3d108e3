"""Small builders with defaults: a test sets only what it is about."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from sqlalchemy.orm import Session

from runners.spec import LaunchSpec, Limits
from service import domain
from service.db import catalog, models
from service.db import runs as runs_db
from service.db.session import Message
from service.domain import Arrangement, FailureReason, Role, Scope, SideSpec
from service.stats.comparison import MetricComparison
from service.usecases import access, runs
from service.usecases.access import NewToken
from service.usecases.recording import PairResult, TrialResult
from service.usecases.registry import LOCAL_CLUSTER, serve_cluster
from service.usecases.runs import Plan, ResolvedRevision, RunRequest

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def unsent(_message: Message) -> None:
    """Where messages go that nobody is to hear."""


def project(session: Session, name: str = "tinylm") -> models.Project:
    row = models.Project(name=name, source="/repositories/tinylm")
    return catalog.find_or_add(session, row, name=name)


def cluster(session: Session, *, num_cpus: int = 4, num_slots: int = 1) -> models.Cluster:
    for number in range(num_slots):
        serve_cluster(session, LOCAL_CLUSTER, str(number), num_cpus=num_cpus, num_devices=0)
    return catalog.cluster(session, LOCAL_CLUSTER)


def slot_id(session: Session, number: int = 0) -> UUID:
    """Of the cluster's slot with that number, which is made where it is missing."""
    return serve_cluster(session, LOCAL_CLUSTER, str(number), num_cpus=4, num_devices=0).id


def case(name: str = "tinylm", **values: Any) -> domain.Case:
    return domain.Case(**{"name": name, "world_size": 2, "script": "train.py", **values})


def revision(sha: str = "a" * 40, **values: Any) -> ResolvedRevision:
    defaults = {"subject": "Fuse the norm", "author": "Ada", "committed_at": NOON}
    return ResolvedRevision(sha=sha, **{**defaults, **values})


def run(session: Session, **values: Any) -> models.Run:
    """A requested run: queued, not planned."""
    project(session)
    cluster(session)
    request = RunRequest(
        **{
            "project": "tinylm",
            "candidate": SideSpec(revision="faster"),
            "baseline": SideSpec(revision="main"),
            **values,
        }
    )
    return runs.request(session, request)


def plan(**values: Any) -> Plan:
    defaults: dict[str, Any] = {
        "baseline": revision("a" * 40),
        "candidate": revision("b" * 40),
        "cases": [case()],
    }
    return Plan(**{**defaults, **values})


def job(session: Session, **values: Any) -> models.Job:
    """The job of a run that has been planned."""
    row = run(session)
    runs.plan(session, row.id, plan(**values))
    (found,) = runs_db.jobs(session, row.id)
    return runs_db.job(session, found.id)


def token(session: Session, name: str = "ada", *scopes: Scope, **values: Any) -> NewToken:
    """A token of these scopes (default: `read`), its row changed to `values`."""
    made = access.create(
        session,
        name=name,
        scopes=scopes or (Scope.READ,),
        expires_days=None,
        creator=domain.LOCAL,
    )
    for key, value in values.items():
        setattr(made.row, key, value)
    session.flush()
    return made


def environment(session: Session, job: models.Job, **soft: Any) -> models.Environment:
    return catalog.environment(session, job.run.cluster_id, {"cpu_model": "Z80"}, soft)


def trial(role: Role, *, step_times: Sequence[float] | None = None, **values: Any) -> TrialResult:
    """A trial of 120 steps, 20 of them warm-up; `step_times` replaces all of them."""
    times = np.asarray([0.01] * 120 if step_times is None else step_times)
    defaults: dict[str, Any] = {
        "trial_id": uuid4(),
        "role": role,
        "started_at": NOON,
        "finished_at": NOON + timedelta(seconds=20),
        "command": "torchrun train.py",
        "software": {"python": "3.11.7", "versions": {"torch": "2.13.0"}},
        "num_warmup_steps": 20,
        "samples": {"step_time_s": times, "steps_per_s": np.array([1 / times[20:].mean()])},
    }
    return TrialResult(**{**defaults, **values})


def failed_trial(role: Role, reason: FailureReason = FailureReason.CRASHED) -> TrialResult:
    detail = "Rank 1 exited with 3."
    failure = domain.Failure(reason=reason, detail=detail)
    return trial(role, failure=failure, samples={}, exit_code=3)


def pair(
    rng: np.random.Generator | None = None, *, change: float = 0.0, **values: Any
) -> PairResult:
    """A lock-step pair whose candidate takes `change` longer per step, as a fraction."""
    rng = rng or np.random.default_rng(1)
    shared = rng.normal(0, 0.01)
    factors = {Role.BASELINE: 1.0, Role.CANDIDATE: 1.0 + change}
    trials = {
        role: trial(role, step_times=0.01 * factor * np.exp(shared + rng.normal(0, 0.004, 120)))
        for role, factor in factors.items()
    }
    defaults: dict[str, Any] = {
        "arrangement": Arrangement.LOCKSTEP,
        "first": Role.BASELINE,
        "steps_per_turn": 1,
        "started_at": NOON,
        "finished_at": NOON + timedelta(seconds=20),
        "trials": trials,
    }
    return PairResult(**{**defaults, **values})


def comparison(verdict: domain.Verdict, **values: Any) -> MetricComparison:
    defaults: dict[str, Any] = {
        "metric": "step_time_s",
        "is_gating": True,
        "min_effect": 0.02,
        "reasons": ("Because.",),
    }
    return MetricComparison(verdict=verdict, **{**defaults, **values})


def launch_spec(folder: Path, **values: Any) -> LaunchSpec:
    defaults: dict[str, Any] = {
        "trial_id": "7d3c",
        "slot_id": UUID(int=7),
        "program": ("train.py", "--steps", "400"),
        "world_size": 2,
        "python": Path("/opt/env/bin/python"),
        "scratch": folder,
        "working_dir": Path("/repositories/tinylm"),
        "environment": {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin"},
        "log": folder / "log.txt",
        "records": folder / "records",
        "deadline_s": 600.0,
        "limits": Limits(start_s=180.0, stall_s=60.0, kill_grace_s=10.0),
    }
    return LaunchSpec(**{**defaults, **values})


@dataclass(frozen=True)
class Repository:
    """A git repository in a folder of the test's."""

    path: Path

    def git(self, *arguments: str) -> str:
        identity = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in {"NAME": "Ada", "EMAIL": "a@b", "DATE": "@1700000000 +0000"}.items()
        }
        result = subprocess.run(
            ["git", "-C", str(self.path), *arguments],
            env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", **identity},
            check=True,
            capture_output=True,
            text=True,
        )
        return result.stdout.strip()

    def commit(self, subject: str, files: Mapping[str, str | None]) -> str:
        """Write (None: remove) files and commit them; the sha."""
        for name, text in files.items():
            path = self.path / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", subject)
        return self.git("rev-parse", "HEAD")


def repository(path: Path) -> Repository:
    path.mkdir(parents=True)
    made = Repository(path)
    made.git("init", "--quiet", "--initial-branch=main")
    return made
