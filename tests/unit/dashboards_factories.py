"""Views with sensible defaults for tests of the pages; a test sets only what it is about."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from service.db.views import (
    ArtifactView,
    ComparisonView,
    EnvironmentView,
    LookView,
    PairView,
    RunDetail,
    RunSummary,
    SideView,
    Trace,
    TrialView,
)
from service.domain import (
    Arrangement,
    FailureReason,
    Intent,
    Policy,
    Role,
    Rule,
    Status,
    Verdict,
)
from service.stats.compare import ALGORITHM, VERSION, compare
from service.stats.headline import headline
from service.stats.pairs import PairEffects

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BASE_SHA, CANDIDATE_SHA = "4f2c1aa9" + "0" * 32, "9b01de37" + "0" * 32
COMMAND = "cd /srv/worktrees/9b01 && env OMP_NUM_THREADS=1 torchrun --nproc-per-node=2 train.py"


def ident(number: int) -> UUID:
    """A readable id."""
    return UUID(int=number << 96)


def side(**given: Any) -> SideView:
    """The candidate's side."""
    values = {
        "requested": "faster-rope",
        "sha": CANDIDATE_SHA,
        "subject": "Cache the rotary embedding per sequence length",
        "author": "Ada",
        "image": None,
        "environment": {},
        "arguments": [],
    }
    return SideView(**values | given)


def baseline_side(**given: Any) -> SideView:
    """The baseline's side."""
    values = {"requested": "main", "sha": BASE_SHA, "subject": "Split the loader from the trainer"}
    return side(**values | given)


def effects(mean: float, spread: float, num_pairs: int, seed: int = 1) -> list[float]:
    """Reproducible d of so many pairs."""
    rng = random.Random(seed)
    return [rng.gauss(mean, spread) for _ in range(num_pairs)]


def pair(position: int, effects: Mapping[str, float] | None = None, **given: Any) -> PairView:
    """A valid pair with these effects."""
    started = NOW - timedelta(minutes=30 - position)
    values: dict[str, Any] = {
        "id": ident(1000 + position),
        "case": "train-2",
        "position": position,
        "arrangement": Arrangement.LOCKSTEP,
        "first": Role.BASELINE,
        "invalid_reason": None,
        "invalid_detail": None,
        "effects": {"step_time_s": 0.05} if effects is None else effects,
        "started_at": started,
        "finished_at": started + timedelta(seconds=41),
    }
    return PairView(**values | given)


def pairs(num_pairs: int = 5, mean: float = 0.05, case: str = "train-2") -> list[PairView]:
    """Valid pairs of step time and throughput."""
    times = effects(mean, 0.006, num_pairs)
    noise = effects(0, 0.001, num_pairs, seed=2)
    return [
        pair(i, {"step_time_s": d, "tokens_per_s": -d + e}, case=case)
        for i, (d, e) in enumerate(zip(times, noise, strict=True))
    ]


def comparison(verdict: Verdict = Verdict.REGRESSION, **given: Any) -> ComparisonView:
    """A comparison of step time without looks."""
    values: dict[str, Any] = {
        "id": ident(2000),
        "case": "train-2",
        "metric": "step_time_s",
        "is_gating": True,
        "min_effect": 0.02,
        "verdict": verdict,
        "reasons": ["Step time +5.1 % over 5 pairs.", "A second reason."],
        "effect": 0.05,
        "low": 0.043,
        "high": 0.057,
        "baseline_value": 0.1243,
        "candidate_value": 0.1307,
        "num_pairs": 5,
        "decided_at": 5,
        "pairs_to_go": None,
        "q": None,
        "algorithm": ALGORITHM,
        "version": VERSION,
        "parameters": {},
        "inputs": [],
        "looks": [],
    }
    return ComparisonView(**values | given)


def unmeasured(verdict: Verdict, reason: str, **given: Any) -> ComparisonView:
    """A comparison without any figure."""
    nothing = dict.fromkeys(
        ("effect", "low", "high", "baseline_value", "candidate_value", "decided_at")
    )
    return comparison(verdict, reasons=[reason], num_pairs=0, **nothing | given)


def look(num_pairs: int = 3, **given: Any) -> LookView:
    """A look that decided nothing."""
    values: dict[str, Any] = {
        "num_pairs": num_pairs,
        "mean": 0.05,
        "sd": 0.006,
        "low": 0.02,
        "high": 0.08,
        "p_regression": 0.002,
        "p_improvement": 0.998,
        "p_no_change": 0.97,
        "level_change": 0.0012,
        "level_no_change": 0.0031,
        "verdict": None,
    }
    return LookView(**values | given)


def judged(
    measured: Sequence[PairView], values: Mapping[str, tuple[float, float]] | None = None
) -> list[ComparisonView]:
    """What the real statistics say of these pairs; `values` maps a metric to its two medians."""
    metrics = {
        "step_time_s": Rule(min_effect=0.02, gate=True),
        "peak_rss_bytes": Rule(min_effect=0.05, gate=False),
    }
    valid = [item for item in measured if item.effects]
    found = compare([PairEffects(str(i.id), i.effects) for i in valid], Policy(metrics=metrics))
    return [
        comparison(
            item.verdict,
            **{
                name: getattr(item, name)
                for name in (
                    "metric", "is_gating", "min_effect", "effect", "low", "high", "num_pairs",
                    "decided_at", "pairs_to_go", "q", "parameters",
                )
            },
            id=ident(2000 + number),
            case=measured[0].case,
            reasons=list(item.reasons),
            looks=[LookView(**asdict(look)) for look in item.looks],
            baseline_value=(values or {}).get(item.metric, (0.1, 0.1))[0],
            candidate_value=(values or {}).get(item.metric, (0.1, 0.1))[1],
        )
        for number, item in enumerate(found)
    ]  # fmt: skip


def artifact(number: int = 1, **given: Any) -> ArtifactView:
    """A log."""
    values = {"id": ident(3000 + number), "kind": "log", "name": "log.txt", "num_bytes": 4321}
    return ArtifactView(**values | given)


def trial(role: Role = Role.CANDIDATE, pair: int | None = 0, **given: Any) -> TrialView:
    """A trial that succeeded."""
    values: dict[str, Any] = {
        "id": ident(4000),
        "case": "train-2",
        "role": role,
        "pair": pair,
        "failure_reason": None,
        "failure_detail": None,
        "exit_code": 0,
        "command": COMMAND,
        "software": {"python": "3.11.2", "versions": {"torch": "2.13.0", "numpy": "2.4.6"}},
        "num_warmup_steps": 20,
        "started_at": NOW - timedelta(minutes=20),
        "finished_at": NOW - timedelta(minutes=19, seconds=18),
        "artifacts": [artifact()],
    }
    return TrialView(**values | given)


def failed_trial(reason: FailureReason, **given: Any) -> TrialView:
    """A trial that failed."""
    values = {"failure_reason": reason, "failure_detail": "Rank 1 exited with 1.", "exit_code": 1}
    return trial(**values | given)


def environment(**given: Any) -> EnvironmentView:
    """A CPU node."""
    values: dict[str, Any] = {
        "hard": {"cpu_model": "AMD EPYC 9654", "num_cpus": 16, "memory_bytes": 128 * 2**30},
        "soft": {"node": "bench-01", "kernel": "6.1.0", "arrangement": "lockstep"},
        "num_pairs": 5,
    }
    return EnvironmentView(**values | given)


def trace(num_steps: int = 220, pair: int = 0, case: str = "train-2", **given: Any) -> Trace:
    """Step times with a slow start and a spike."""
    rng = random.Random(pair)

    def times(level: float) -> list[float]:
        found = [level * math.exp(rng.gauss(0, 0.012)) for _ in range(num_steps)]
        found[0] = 9 * level
        found[num_steps // 2] *= 1.4
        return found

    values: dict[str, Any] = {
        "case": case,
        "pair": pair,
        "steps": {Role.BASELINE: times(0.1243), Role.CANDIDATE: times(0.1307)},
        "num_warmup_steps": 20,
    }
    return Trace(**values | given)


_DETAIL: dict[str, Any] = {
    "mark": "finished-5-10-1",
    **dict.fromkeys(("suite", "cases", "kind", "max_pairs", "budget_device_hours", "policy")),
    **{k: [] for k in ("comparisons", "pairs", "trials", "diagnoses", "environments", "artifacts")},
}


def summary(status: Status = Status.FINISHED, **given: Any) -> RunSummary:
    """A run in a list."""
    detail = run(status, **given)
    return RunSummary(**{k: v for k, v in vars(detail).items() if k not in _DETAIL})


def run(status: Status = Status.FINISHED, **given: Any) -> RunDetail:
    """A run; finished it says `regression` unless told otherwise."""
    is_finished = status is Status.FINISHED
    values: dict[str, Any] = {
        "id": ident(7),
        "project": "tinylm",
        "cluster": "local",
        "intent": Intent.GATE,
        "status": status,
        "verdict": Verdict.REGRESSION if is_finished else None,
        "failure_reason": FailureReason.SETUP_FAILED if status is Status.FAILED else None,
        "failure_detail": "pip exited with 1." if status is Status.FAILED else None,
        "baseline": baseline_side(),
        "candidate": side(),
        "requested_by": "ada",
        "device_s": 0.0 if status is Status.QUEUED else 754.0,
        "created_at": NOW - timedelta(minutes=40),
        "started_at": None if status is Status.QUEUED else NOW - timedelta(minutes=38),
        "finished_at": NOW - timedelta(minutes=12) if status.is_final else None,
        **_DETAIL,
        **given,
    }
    if "headline" not in values:
        sentence = headline(status, values["failure_detail"], values["comparisons"])
        values["headline"] = sentence
    return RunDetail(**values)


def measured_run(**given: Any) -> RunDetail:
    """A finished run with pairs, trials and an environment, judged by the real statistics."""
    found = pairs()
    both = [trial(role, item.position) for item in found for role in Role]
    values: dict[str, Any] = {
        "pairs": found,
        "comparisons": judged(
            found, {"step_time_s": (0.1243, 0.1307), "tokens_per_s": (8e4, 7.6e4)}
        ),
        "diagnoses": [],
        "trials": [replace(item, id=ident(4000 + i)) for i, item in enumerate(both)],
        "environments": [environment()],
    }
    return run(**values | given)
