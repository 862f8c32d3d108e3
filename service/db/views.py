"""What the API and the pages show, as frozen values; `reading` makes them from rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from service.domain import Arrangement, FailureReason, Intent, Kind, Role, Status, Verdict
from service.stats.difference import Difference


@dataclass(frozen=True, kw_only=True)
class SideView:
    """A side as asked for, and the commit it became once planned."""

    requested: str
    sha: str | None
    subject: str | None
    author: str | None
    image: str | None
    environment: Mapping[str, str]
    arguments: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class LookView:
    """An interim analysis; effects are log ratios."""

    num_pairs: int
    mean: float
    sd: float
    low: float
    high: float
    p_regression: float
    p_improvement: float
    p_no_change: float
    level_change: float
    level_no_change: float
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    """Baseline against candidate for one metric; effect, low and high are log ratios."""

    id: UUID
    case: str
    metric: str
    is_gating: bool
    min_effect: float
    verdict: Verdict
    reasons: Sequence[str]
    effect: float | None
    low: float | None
    high: float | None
    baseline_value: float | None
    candidate_value: float | None
    num_pairs: int
    decided_at: int | None
    pairs_to_go: int | None
    q: float | None
    algorithm: str
    version: int
    parameters: Mapping[str, Any]
    inputs: Sequence[str]
    looks: Sequence[LookView]


@dataclass(frozen=True, kw_only=True)
class ArtifactView:
    """A stored file."""

    id: UUID
    kind: str
    name: str
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class TrialView:
    """One launch of one side; `pair` is its pair's position, None for a solo trial."""

    id: UUID
    case: str
    role: Role
    pair: int | None
    failure_reason: FailureReason | None
    failure_detail: str | None
    exit_code: int | None
    command: str
    software: Mapping[str, Any]
    num_warmup_steps: int
    started_at: datetime
    finished_at: datetime
    artifacts: Sequence[ArtifactView]


@dataclass(frozen=True, kw_only=True)
class PairView:
    """One pair; `effects` holds d per metric, empty where the pair is invalid."""

    id: UUID
    case: str
    position: int
    arrangement: Arrangement
    first: Role
    invalid_reason: FailureReason | None
    invalid_detail: str | None
    effects: Mapping[str, float]
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, kw_only=True)
class DiagnosisView:
    """Why a case got slower: `cause`, or the `reason` why that is not known.

    Its two trials were profiled and not timed. `library` holds what the library of collectives
    chose, by side.
    """

    case: str
    cause: str | None
    reason: str | None
    baseline_trial_id: UUID
    candidate_trial_id: UUID | None
    difference: Difference | None
    library: Mapping[Role, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class EnvironmentView:
    """Facts of the cluster, and the pairs they held for."""

    hard: Mapping[str, Any]
    soft: Mapping[str, Any]
    num_pairs: int


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run in a list. `verdict` is None until the run is finished."""

    id: UUID
    project: str
    cluster: str
    intent: Intent
    status: Status
    verdict: Verdict | None
    headline: str
    failure_reason: FailureReason | None
    failure_detail: str | None
    baseline: SideView
    candidate: SideView
    device_s: float
    requested_by: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class EstimateView:
    """What is known of one metric so far; effect, low and high are log ratios."""

    case: str
    metric: str
    is_gating: bool
    min_effect: float
    verdict: Verdict
    effect: float | None
    low: float | None
    high: float | None
    num_pairs: int
    pairs_to_go: int | None


@dataclass(frozen=True, kw_only=True)
class RunProgress(RunSummary):
    """A run as whoever follows it sees it. `mark` changes whenever the run moves on."""

    mark: str
    comparisons: Sequence[EstimateView]


@dataclass(frozen=True, kw_only=True)
class RunDetail(RunSummary):
    """A run whole. `suite` to `budget_device_hours` are as asked. Comparisons come worst first.

    `mark` is that of its progress: what follows it in /events is new.
    """

    mark: str
    suite: str | None
    cases: Sequence[str] | None
    kind: Kind | None
    max_pairs: int | None
    budget_device_hours: float | None
    policy: Mapping[str, Any] | None
    comparisons: Sequence[ComparisonView]
    pairs: Sequence[PairView]
    trials: Sequence[TrialView]
    diagnoses: Sequence[DiagnosisView]
    environments: Sequence[EnvironmentView]
    artifacts: Sequence[ArtifactView]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Step times of a pair's two trials, warm-up included, in seconds."""

    case: str
    pair: int
    steps: Mapping[Role, Sequence[float]]
    num_warmup_steps: int
