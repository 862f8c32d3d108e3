"""Runs as the worker would store them, for tests that look at pages in a browser."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import numpy as np
from sqlalchemy.orm import Session

from service import domain
from service.db import models, results
from service.domain import (
    Arrangement,
    FailureReason,
    Intent,
    Kind,
    Policy,
    Role,
    Rule,
    SideSpec,
    Status,
    Verdict,
)
from service.stats.compare import ALGORITHM, VERSION, compare
from service.stats.comparison import MetricComparison, expected, unmeasured
from service.stats.pairs import PairEffects
from service.stats.summary import summarize
from service.usecases.runs import RunRequest

HOSTILE = "<script>document.title = 'owned'</script>"
COMMAND = (
    "cd /srv/paceline/worktrees/9b01de37 && env MASTER_ADDR=127.0.0.1 OMP_NUM_THREADS=1 "
    "torchrun --standalone --nproc-per-node=2 train.py --steps 400"
)
REQUEST = RunRequest(
    project="tinylm",
    baseline=SideSpec(revision="main"),
    candidate=SideSpec(revision="faster-rope"),
)
POLICY = Policy(
    metrics={
        "step_time_s": Rule(min_effect=0.02, gate=True),
        "peak_rss_bytes": Rule(min_effect=0.05, gate=False),
    }
)
_STEP_S, _TOKENS, _WARMUP = 0.1243, 8192, 20


class Bench:
    """Stores runs of one project on one cluster, each an hour younger than the one before."""

    def __init__(self, session: Session, project: str = "tinylm") -> None:
        self.session = session
        self.project = models.Project(name=project, source=f"/srv/git/{project}")
        self.cluster = models.Cluster(
            name=f"{project}-nodes",
            launcher="local",
            max_world_size=8,
            devices_per_node=0,
            arrangement=Arrangement.LOCKSTEP,
        )
        self.session.add_all([self.project, self.cluster])
        self.session.flush()
        self.environment = models.Environment(
            cluster_id=self.cluster.id,
            key=uuid4().hex,
            hard={"cpu_model": "AMD EPYC 9654", "num_cpus": 16, "memory_bytes": 128 * 2**30},
            soft={"node": "bench-01", "kernel": "6.1.0-28-amd64", "arrangement": "lockstep"},
        )
        self.session.add(self.environment)
        self.clock = datetime.now(UTC) - timedelta(hours=9)
        self.rng = np.random.default_rng(1)

    def run(
        self,
        status: Status = Status.FINISHED,
        subject: str = "Cache the rotary embedding per sequence length",
        **given: Any,
    ) -> models.Run:
        """A run with both sides and one empty job."""
        sides = [self._side("Split the loader from the trainer"), self._side(subject)]
        started = None if status is Status.QUEUED else self.clock + timedelta(seconds=4)
        cost = 0.0 if status is Status.QUEUED else 754.2
        run = models.Run(
            project_id=self.project.id,
            cluster_id=self.cluster.id,
            intent=Intent.GATE,
            status=status,
            request=asdict(REQUEST),
            policy=asdict(POLICY),
            baseline_side_id=sides[0].id,
            candidate_side_id=sides[1].id,
            seed=1,
            created_at=self.clock,
            started_at=started,
            finished_at=self.clock + timedelta(minutes=13) if status.is_final else None,
            jobs=[
                models.Job(
                    cluster_id=self.cluster.id,
                    position=0,
                    status=status,
                    device_s=cost,
                    job_cases=[],
                )
            ],
            **given,
        )
        self.clock += timedelta(hours=1)
        self.session.add(run)
        self.session.flush()
        return run

    def case(self, run: models.Run, name: str = "train-2") -> models.Case:
        """A case of the run's job."""
        spec = domain.Case(name=name, world_size=2, script="train.py")
        case = models.Case(
            project_id=self.project.id, name=name, key=uuid4().hex, world_size=2, spec=asdict(spec)
        )
        self.session.add(case)
        self.session.flush()
        [job] = run.jobs
        job.job_cases.append(models.JobCase(case_id=case.id, position=len(job.job_cases)))
        self.session.flush()
        return case

    def measure(
        self,
        run: models.Run,
        case: models.Case,
        effect: float,
        num_pairs: int,
        spread: float = 0.004,
    ) -> None:
        """Valid pairs of a candidate slower by `effect`, and what the statistics say of them."""
        found = [
            self._valid_pair(run, case, position, effect + self.rng.normal(0, spread))
            for position in range(num_pairs)
        ]
        metrics = [item for item in compare(found, POLICY) if item is not None]
        values = {
            "step_time_s": (_STEP_S, _STEP_S * np.exp(effect)),
            "tokens_per_s": (_TOKENS / _STEP_S, _TOKENS / _STEP_S * np.exp(-effect)),
            "peak_rss_bytes": (1.31e9, 1.32e9),
        }
        self.judge(run, case, metrics, values, [item.pair for item in found])

    def judge(
        self,
        run: models.Run,
        case: models.Case,
        comparisons: Sequence[MetricComparison],
        values: Mapping[str, tuple[float, float]] | None = None,
        inputs: Sequence[str] = (),
    ) -> None:
        """Put comparisons in force."""
        for item in comparisons:
            baseline, candidate = (values or {}).get(item.metric, (None, None))
            fields = {k: v for k, v in vars(item).items() if hasattr(models.Comparison, k)}
            fields |= {"reasons": list(item.reasons), "parameters": dict(item.parameters)}
            fields |= {"looks": [models.Look(**asdict(look)) for look in item.looks]}
            fields |= {"algorithm": ALGORITHM, "version": VERSION, "inputs": list(inputs)}
            fields |= {"baseline_value": baseline, "candidate_value": candidate}
            self.session.add(models.Comparison(job_id=run.jobs[0].id, case_id=case.id, **fields))
        self.session.flush()
        if run.status is Status.FINISHED:
            run.verdict = results.verdict(self.session, run.id)

    def unmeasured(
        self, run: models.Run, verdict: Verdict, reason: str, case: models.Case | None = None
    ) -> None:
        """Comparisons that only say why there is no measurement."""
        names = expected(POLICY, Kind.MEASURED)
        self.judge(run, case or self.case(run), unmeasured(verdict, reason, POLICY, names))

    def failed_pair(
        self, run: models.Run, case: models.Case, position: int, reason: FailureReason, detail: str
    ) -> None:
        """A pair in which the candidate failed and the baseline was let go."""
        row = self._pair(run, case, position, invalid_reason=reason, invalid_detail=detail)
        self._trial(run, case, row, Role.BASELINE, failure_reason=FailureReason.PEER_FAILED)
        self._trial(
            run,
            case,
            row,
            Role.CANDIDATE,
            failure_reason=reason,
            failure_detail=detail,
            exit_code=1,
        )

    def _valid_pair(
        self, run: models.Run, case: models.Case, position: int, effect: float
    ) -> PairEffects:
        d = effect + self.rng.normal(0, 0.0005)
        memory = self.rng.normal(0, 0.004)
        effects = {"step_time_s": d, "tokens_per_s": -d, "peak_rss_bytes": memory}
        row = self._pair(run, case, position, effects=effects)
        noise = self.rng.normal(0, 0.01, (3, 220))
        noise[0, 100::60] += 0.25  # a neighbour, felt by both sides
        noise[:, 0] += 2.2
        times = {
            Role.BASELINE: _STEP_S * np.exp(noise[0] + noise[1] / 2),
            Role.CANDIDATE: _STEP_S * np.exp(noise[0] + noise[2] / 2 + effect),
        }
        for role, samples in times.items():
            trial = self._trial(run, case, row, role, exit_code=0)
            total = samples[_WARMUP:].sum()
            self._measurement(trial, "step_time_s", samples)
            self._measurement(trial, "tokens_per_s", [200 * _TOKENS / total])
            self._measurement(trial, "peak_rss_bytes", [int(1.31e9 + self.rng.normal(0, 4e6))])
        return PairEffects(str(row.id), effects)

    def _side(self, subject: str) -> models.Side:
        revision = models.Revision(
            project_id=self.project.id,
            sha=uuid4().hex + "0" * 8,
            subject=subject,
            author="Ada Byron",
            committed_at=self.clock,
        )
        self.session.add(revision)
        self.session.flush()
        side = models.Side(
            revision_id=revision.id, key=uuid4().hex, environment={}, arguments=[], image=None
        )
        self.session.add(side)
        self.session.flush()
        return side

    def _pair(self, run: models.Run, case: models.Case, position: int, **given: Any) -> models.Pair:
        started = run.created_at + timedelta(seconds=10 + 42 * position)
        row = models.Pair(
            job_id=run.jobs[0].id,
            case_id=case.id,
            environment_id=self.environment.id,
            position=position,
            arrangement=Arrangement.LOCKSTEP,
            first=Role.BASELINE,
            steps_per_turn=1,
            started_at=started,
            finished_at=started + timedelta(seconds=41),
            **{"effects": {}, **given},
        )
        self.session.add(row)
        self.session.flush()
        return row

    def _trial(
        self, run: models.Run, case: models.Case, pair: models.Pair, role: Role, **given: Any
    ) -> models.Trial:
        is_baseline = role is Role.BASELINE
        trial = models.Trial(
            job_id=run.jobs[0].id,
            case_id=case.id,
            side_id=run.baseline_side_id if is_baseline else run.candidate_side_id,
            pair_id=pair.id,
            role=role,
            command=COMMAND,
            software={
                "python": "3.11.2",
                "versions": {"torch": "2.12.1" if is_baseline else "2.13.0", "numpy": "2.4.6"},
            },
            num_warmup_steps=_WARMUP,
            started_at=pair.started_at,
            finished_at=pair.finished_at,
            **given,
        )
        self.session.add(trial)
        self.session.flush()
        log = models.Artifact(
            run_id=run.id,
            trial_id=trial.id,
            kind="log",
            name="log.txt",
            path=f"{run.id}/{trial.id}/log.txt",
            num_bytes=5120,
        )
        self.session.add(log)
        return trial

    def _measurement(self, trial: models.Trial, metric: str, samples: Any) -> None:
        steady = samples[_WARMUP:] if metric == "step_time_s" else samples
        self.session.add(
            models.Measurement(
                trial_id=trial.id, metric=metric, samples=samples, **asdict(summarize(steady))
            )
        )
