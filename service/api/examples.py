"""Values that /openapi.json shows as examples. They are views, so they have every field."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from service.db.paging import Cursor, encode
from service.db.views import (
    ArtifactView,
    ComparisonView,
    DiagnosisView,
    EnvironmentView,
    EstimateView,
    LookView,
    PairView,
    RunDetail,
    RunProgress,
    RunSummary,
    SideView,
    TrialView,
)
from service.domain import Arrangement, FailureReason, Intent, Role, Status, Verdict
from service.stats.breakdown import Category
from service.stats.difference import Difference, Row, StepDifference

_NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
_SECONDS = timedelta(seconds=1)
_BASELINE, _CANDIDATE = (
    SideView(
        requested=requested,
        sha=sha,
        subject=subject,
        author="Ada",
        image=None,
        environment={},
        arguments=[],
    )
    for requested, sha, subject in (
        ("main", "4f2c1aa9d0" * 4, "Split the loader from the trainer"),
        ("faster-rope", "9b01de3755" * 4, "Cache the rotary embedding"),
    )
)

QUEUED = RunSummary(
    id=UUID("0b9a6d7e-5a0c-4e0f-9f43-2c4a1f0f6f10"),
    project="tinylm",
    cluster="local",
    intent=Intent.GATE,
    status=Status.QUEUED,
    verdict=None,
    headline="The run waits for a worker.",
    failure_reason=None,
    failure_detail=None,
    baseline=_BASELINE,
    candidate=_CANDIDATE,
    device_s=0.0,
    requested_by="ci",
    created_at=_NOON,
    started_at=None,
    finished_at=None,
)
CANCELLED = replace(
    QUEUED,
    status=Status.CANCELLED,
    headline="The run was cancelled, so there is no verdict.",
    failure_reason=FailureReason.CANCELLED,
    finished_at=_NOON + 5 * _SECONDS,
)

_LOOK = LookView(
    num_pairs=3,
    mean=0.0497,
    sd=0.0052,
    low=0.0362,
    high=0.0633,
    p_regression=0.0021,
    p_improvement=1.0,
    p_no_change=0.99,
    level_change=0.0057,
    level_no_change=0.0115,
    verdict=Verdict.REGRESSION,
)
_COMPARISON = ComparisonView(
    id=UUID("2f0d2c1e-1d2b-4a51-8a2e-0f8f5a3c7d11"),
    case="tinylm",
    metric="step_time_s",
    is_gating=True,
    min_effect=0.02,
    verdict=Verdict.REGRESSION,
    reasons=["Step time is worse by at least half of δ: +5.1 % over 3 pairs."],
    effect=0.0497,
    low=0.0362,
    high=0.0633,
    baseline_value=0.1243,
    candidate_value=0.1307,
    num_pairs=3,
    decided_at=3,
    pairs_to_go=None,
    q=None,
    algorithm="paired-sequential",
    version=1,
    parameters={},
    inputs=["6a1b0c2d-3e4f-4a5b-8c6d-7e8f9a0b1c22"],
    looks=[_LOOK],
)
_PAIR = PairView(
    id=UUID("6a1b0c2d-3e4f-4a5b-8c6d-7e8f9a0b1c22"),
    case="tinylm",
    position=0,
    arrangement=Arrangement.LOCKSTEP,
    first=Role.BASELINE,
    invalid_reason=None,
    invalid_detail=None,
    effects={"step_time_s": 0.0497},
    started_at=_NOON + 60 * _SECONDS,
    finished_at=_NOON + 101 * _SECONDS,
)
_TRIAL = TrialView(
    id=UUID("7d3c5b1a-0f9e-4d8c-b7a6-958473625133"),
    case="tinylm",
    role=Role.CANDIDATE,
    pair=0,
    failure_reason=None,
    failure_detail=None,
    exit_code=0,
    command="torchrun --nproc-per-node=2 train.py --steps 400",
    software={"python": "3.11.7"},
    num_warmup_steps=40,
    started_at=_PAIR.started_at,
    finished_at=_PAIR.finished_at,
    artifacts=[
        ArtifactView(
            id=UUID("8e4d6c2b-1a0f-4e9d-a8b7-a69584736244"),
            kind="log",
            name="log.txt",
            num_bytes=2048,
        )
    ],
)
_STEP = StepDifference(
    baseline_s=0.131,
    candidate_s=0.1379,
    parts=(
        Row(category=Category.COMPUTE, baseline_s=0.118, candidate_s=0.1247),
        Row(category=Category.IDLE, baseline_s=0.013, candidate_s=0.0132),
    ),
    operators=(),
)
_DIAGNOSIS = DiagnosisView(
    case="tinylm",
    cause="aten::mm [512x64, 64x64]: 20 more calls a step, +6.7 ms",
    reason=None,
    baseline_trial_id=UUID("9f5e7d3c-2b1a-4f0e-b9c8-b7a695847355"),
    candidate_trial_id=UUID("a06f8e4d-3c2b-4a1f-8ad9-c8b7a6958466"),
    difference=Difference(
        ranks=(_STEP,),
        mean=replace(
            _STEP,
            operators=(
                Row(
                    category=Category.COMPUTE,
                    name="aten::mm",
                    baseline_s=0.061,
                    candidate_s=0.0677,
                    baseline_calls=60,
                    candidate_calls=80,
                    shapes=("512x64, 64x64",),
                ),
            ),
        ),
    ),
    library={Role.BASELINE: {"channels": "24"}, Role.CANDIDATE: {"channels": "24"}},
)

FINISHED = replace(
    QUEUED,
    status=Status.FINISHED,
    verdict=Verdict.REGRESSION,
    headline="Regression: tinylm: step time +5.1 % [95 % interval +3.7 %, +6.5 %], δ = 2 %.",
    device_s=123.0,
    started_at=_NOON + 50 * _SECONDS,
    finished_at=_NOON + 190 * _SECONDS,
)
PROGRESS = RunProgress(
    **vars(replace(FINISHED, status=Status.RUNNING, verdict=None, finished_at=None)),
    mark="running-1-2-0",
    comparisons=[
        EstimateView(
            case="tinylm",
            metric="step_time_s",
            is_gating=True,
            min_effect=0.02,
            verdict=Verdict.INCONCLUSIVE,
            effect=0.0497,
            low=None,
            high=None,
            num_pairs=1,
            pairs_to_go=None,
        )
    ],
)
DETAIL = RunDetail(
    **vars(FINISHED),
    mark="finished-1-2-1",
    suite=None,
    cases=None,
    kind=None,
    max_pairs=None,
    budget_device_hours=None,
    policy={"metrics": {}, "max_pairs": 20, "budget_device_hours": None},
    comparisons=[_COMPARISON],
    pairs=[_PAIR],
    trials=[_TRIAL],
    diagnoses=[_DIAGNOSIS],
    environments=[EnvironmentView(hard={"cpu_model": "EPYC 9654"}, soft={}, num_pairs=1)],
    artifacts=[],
)
CURSOR = encode(Cursor(created_at=QUEUED.created_at, id=str(QUEUED.id)))
