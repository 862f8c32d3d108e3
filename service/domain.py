"""The words of Paceline as types: pure values, no I/O. See docs/glossary.md."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from service.metrics import Method, metric_named

LOOKS = (3, 5, 8, 12, 20)


class Role(StrEnum):
    """Which side of a comparison; the order is always baseline, candidate."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class Intent(StrEnum):
    """What a run is for."""

    GATE = "gate"
    SCREEN = "screen"
    CONFIRM = "confirm"
    BISECT = "bisect"
    CALIBRATE = "calibrate"
    EVALUATE = "evaluate"


class Kind(StrEnum):
    """How a case is examined."""

    MEASURED = "measured"  # run in pairs
    STATIC = "static"  # counted in one process, without running it


class Arrangement(StrEnum):
    """How the two sides of a pair share the machine."""

    LOCKSTEP = "lockstep"
    ABBA = "abba"


class Status(StrEnum):
    """State of a run or a job. `finished` says that it was measured, not that it passed."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (Status.FINISHED, Status.FAILED, Status.CANCELLED)


OPEN = tuple(status for status in Status if not status.is_final)


class Verdict(StrEnum):
    """What a comparison says. None of these is ever shown as another."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NO_CHANGE = "no_change"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    INCOMPARABLE = "incomparable"
    MISSING = "missing"


class FailureReason(StrEnum):
    """Why a run, job, pair or trial has no result."""

    SOURCE_UNAVAILABLE = "source_unavailable"
    UNKNOWN_REVISION = "unknown_revision"
    SAME_SIDES = "same_sides"
    BAD_MANIFEST = "bad_manifest"
    NO_SUCH_CASE = "no_such_case"
    WORLD_SIZE_TOO_LARGE = "world_size_too_large"
    SETUP_FAILED = "setup_failed"
    WRONG_ORIGIN = "wrong_origin"
    LAUNCH_FAILED = "launch_failed"
    CRASHED = "crashed"
    KILLED = "killed"
    OUT_OF_MEMORY = "out_of_memory"
    STALLED = "stalled"
    DEADLINE = "deadline"
    NAN_LOSS = "nan_loss"
    BAD_RECORDS = "bad_records"
    NO_STEPS = "no_steps"
    TOO_FEW_STEPS = "too_few_steps"
    PEER_FAILED = "peer_failed"
    CANCELLED = "cancelled"
    LEASE_LOST = "lease_lost"
    NO_SPACE = "no_space"
    INTERNAL = "internal"


class Scope(StrEnum):
    """What a token lets its holder do. The writing scopes include `read`, `admin` all of them."""

    READ = "read"
    RUNS_WRITE = "runs:write"
    TRIAGE = "triage"
    ADMIN = "admin"

    @property
    def includes(self) -> frozenset["Scope"]:
        return frozenset(Scope) if self is Scope.ADMIN else frozenset({self, Scope.READ})


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who asks: the holder of the token of that name."""

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: str) -> bool:
        """Whether one of the scopes held includes this one."""
        return any(scope in held.includes for held in self.scopes)


# Who asks a standalone service, which takes requests of its own machine only.
LOCAL = Principal(name="local", scopes=frozenset({Scope.ADMIN}))


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why there is no result; `detail` is a sentence or two for people."""

    reason: FailureReason
    detail: str


CANCELLED = Failure(reason=FailureReason.CANCELLED, detail="The run was cancelled.")


@dataclass(frozen=True, kw_only=True)
class SideSpec:
    """A side as it was asked for: a revision and what differs around it."""

    revision: str
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is examined on both sides. Exactly one of `script` and `workload` is set.

    `warmup_steps` None means the default: the first max(10 steps, 10 %).
    """

    name: str
    world_size: int
    kind: Kind = Kind.MEASURED
    script: str | None = None
    workload: str | None = None
    arguments: tuple[str, ...] = ()
    threads_per_rank: int = 1
    warmup_steps: int | None = None
    arrangement: Arrangement | None = None
    timeout_s: float = 600.0

    @property
    def num_processes(self) -> int:
        """How many a trial starts; a static one of whatever world size is a single process."""
        return 1 if self.kind is Kind.STATIC else self.world_size

    @property
    def key(self) -> str:
        """Content hash of what is measured: equal keys may be compared.

        The name and the time limit are not part of it. Nor is the default kind, which keys were
        made without before there was another.
        """
        left_out = ["name", "timeout_s", *(["kind"] if self.kind is Kind.MEASURED else [])]
        return content_hash({k: v for k, v in asdict(self).items() if k not in left_out})


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one metric is judged. `min_effect` is δ, a fraction: 0.02 means 2 %; 0 only of counts."""

    min_effect: float
    gate: bool

    @property
    def log_min_effect(self) -> float:
        """δ on the log scale, where a slowdown and the equal speed-up are symmetric."""
        return math.log1p(self.min_effect)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What counts as a change, and how much may be spent on finding out."""

    metrics: Mapping[str, Rule] = field(default_factory=dict)
    max_pairs: int = LOOKS[-1]
    budget_device_hours: float | None = None

    def rule(self, name: str) -> Rule | None:
        """Rule for a metric; None where it is only recorded.

        Without one of its own a metric is judged as its family, or as the one it is like.
        """
        asked = metric_named(name)
        if asked.method is Method.RECORDED:
            return None
        named = self.metrics.get(name) or self.metrics.get(asked.family)
        if named is None and asked.like is not None:
            return self.rule(asked.like)
        return named or Rule(min_effect=asked.min_effect, gate=True)

    @property
    def looks(self) -> tuple[int, ...]:
        """Pair counts at which an interim analysis is made; `max_pairs` rounded down to one."""
        return tuple(n for n in LOOKS if n <= self.max_pairs)


def policy_from_json(value: Mapping[str, Any]) -> Policy:
    """Policy from what `asdict` made of it."""
    metrics = {name: Rule(**entry) for name, entry in value["metrics"].items()}
    return Policy(**{**value, "metrics": metrics})


def case_from_json(value: Mapping[str, Any]) -> Case:
    """Case from what `asdict` made of it; one stored before there were kinds was measured."""
    arrangement = value["arrangement"]
    return Case(
        **{
            **value,
            "kind": Kind(value.get("kind", Kind.MEASURED)),
            "arguments": tuple(value["arguments"]),
            "arrangement": None if arrangement is None else Arrangement(arrangement),
        }
    )


def kind_asked(request: Mapping[str, Any]) -> Kind | None:
    """Kind that a stored request asks for; None: any, as all did before there was a choice."""
    kind = request.get("kind")
    return None if kind is None else Kind(kind)


def content_hash(value: object) -> str:
    """SHA-256 (hex) of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


# What decides when several verdicts meet, worst news first. An unsettled metric outranks a settled
# harmless one, so that "no verdict" is never shown as "no regression".
_SEVERITY = (
    Verdict.BROKEN,
    Verdict.REGRESSION,
    Verdict.INCOMPARABLE,
    Verdict.MISSING,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVEMENT,
    Verdict.NO_CHANGE,
)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict that stands for all of them; `missing` where there is none."""
    return min(verdicts, key=_SEVERITY.index, default=Verdict.MISSING)


def severity(verdict: Verdict) -> int:
    """Rank for sorting, worst first."""
    return _SEVERITY.index(verdict)
