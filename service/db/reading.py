"""From rows to views. Rows do not leave this layer towards pages and the API."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from service.db import models, results
from service.db import runs as runs_db
from service.db.paging import Cursor, Page
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
    Trace,
    TrialView,
)
from service.domain import Role, kind_asked, severity
from service.stats.difference import Difference
from service.stats.headline import headline

View = TypeVar("View")
_DIFFERENCE = TypeAdapter(Difference | None)
_ASKED = ("suite", "cases", "max_pairs", "budget_device_hours")


def run_list(
    session: Session,
    which: runs_db.RunFilter = runs_db.ALL,
    *,
    cursor: Cursor | None = None,
    limit: int = 50,
) -> Page[RunSummary]:
    """A page of runs in short."""
    found = runs_db.newest(session, which, cursor=cursor, limit=limit)
    judged = _comparisons(session, found.items)
    return found.map(lambda row: RunSummary(**_summary(row, judged.get(row.id, []))))


def run_summary(session: Session, run_id: UUID) -> RunSummary:
    """A run in short. Raises NotFound."""
    row = runs_db.run(session, run_id)
    return RunSummary(**_summary(row, _comparisons(session, [row]).get(run_id, [])))


def run_progress(session: Session, run_id: UUID, seen: str | None = None) -> RunProgress | None:
    """A run under way; None where it has not moved on since `seen`, a mark. Raises NotFound.

    A run that has ended is always told: there will be nothing else to wait for.
    """
    status, mark = results.progress(session, run_id)
    if mark == seen and not status.is_final:
        return None
    row = runs_db.run(session, run_id)
    comparisons = _comparisons(session, [row]).get(run_id, [])
    return RunProgress(
        **_summary(row, comparisons),
        mark=mark,
        comparisons=[_view(EstimateView, item) for item in comparisons],
    )


def run_detail(session: Session, run_id: UUID) -> RunDetail:
    """A run with everything that was measured. Raises NotFound."""
    _, mark = results.progress(session, run_id)  # first: what is recorded meanwhile is new to it
    row = runs_db.run(session, run_id)
    comparisons = _comparisons(session, [row]).get(run_id, [])
    pairs, trials, diagnoses = [], [], []
    num_pairs: Counter[UUID] = Counter()
    seen: dict[UUID, models.Environment] = {}
    for job in runs_db.jobs(session, run_id):
        names = {link.case_id: link.case.name for link in job.job_cases}
        positions: dict[UUID, int] = {}
        for case_id, name in names.items():
            for pair in results.pairs(session, job.id, case_id):
                positions[pair.id] = pair.position
                seen[pair.environment_id] = pair.environment
                num_pairs[pair.environment_id] += 1
                pairs.append(_view(PairView, pair, case=name))
        for trial in results.trials(session, job.id):
            trials.append(
                _view(
                    TrialView,
                    trial,
                    case=names[trial.case_id],
                    pair=positions.get(trial.pair_id) if trial.pair_id else None,
                    artifacts=[_view(ArtifactView, file) for file in trial.artifacts],
                )
            )
        for case_id, found in results.diagnoses(session, job.id).items():
            diagnoses.append(_diagnosis(found, names[case_id]))
    return RunDetail(
        **_summary(row, comparisons),
        mark=mark,
        **{name: row.request[name] for name in _ASKED},
        kind=kind_asked(row.request),
        policy=row.policy,
        comparisons=comparisons,
        pairs=pairs,
        trials=trials,
        diagnoses=diagnoses,
        environments=[
            EnvironmentView(hard=seen[key].hard, soft=seen[key].soft, num_pairs=count)
            for key, count in num_pairs.items()
        ],
        artifacts=[_view(ArtifactView, file) for file in results.run_artifacts(session, run_id)],
    )


def traces(session: Session, run_id: UUID, pair: int | None = None) -> list[Trace]:
    """Step times of one valid pair per case: of the pair at position `pair`, or the first."""
    found = []
    for job in runs_db.jobs(session, run_id):
        for link in job.job_cases:
            pairs = results.pairs(session, job.id, link.case_id)
            valid = {row.position: row for row in pairs if not row.invalid_reason}
            if not valid:
                continue
            row = valid[pair if pair in valid else min(valid)]
            steps = results.step_times(session, row.id)
            trace = Trace(
                case=link.case.name,
                pair=row.position,
                steps={role: [float(x) for x in steps[role].samples] for role in Role},
                num_warmup_steps=max(trial.num_warmup_steps for trial in row.trials),
            )
            found.append(trace)
    return found


def _comparisons(session: Session, rows: Sequence[models.Run]) -> dict[UUID, list[ComparisonView]]:
    """Comparisons in force per run, worst first."""
    run_of = {job.id: row.id for row in rows for job in row.jobs}
    found: dict[UUID, list[ComparisonView]] = {}
    for row in results.comparisons(session, list(run_of)):
        looks = [_view(LookView, look) for look in row.looks]
        view = _view(ComparisonView, row, case=row.case.name, looks=looks)
        found.setdefault(run_of[row.job_id], []).append(view)
    for views in found.values():
        views.sort(key=lambda c: (not c.is_gating, severity(c.verdict), c.case, c.metric))
    return found


def _diagnosis(row: models.Diagnosis, case: str) -> DiagnosisView:
    return _view(
        DiagnosisView,
        row,
        case=case,
        difference=_DIFFERENCE.validate_python(row.difference),
        library={Role(role): chosen for role, chosen in row.library.items()},
    )


def _summary(row: models.Run, comparisons: Sequence[ComparisonView]) -> dict[str, Any]:
    """Fields of RunSummary."""
    asked = {Role.BASELINE: row.baseline_side, Role.CANDIDATE: row.candidate_side}
    return {
        "project": row.project.name,
        "cluster": row.cluster.name,
        "headline": headline(row.status, row.failure_detail, comparisons),
        "baseline": _side(row, Role.BASELINE, asked[Role.BASELINE]),
        "candidate": _side(row, Role.CANDIDATE, asked[Role.CANDIDATE]),
        "device_s": sum(job.device_s for job in row.jobs),
        **{
            name: getattr(row, name)
            for name in (
                "id",
                "intent",
                "status",
                "verdict",
                "failure_reason",
                "failure_detail",
                "requested_by",
                "created_at",
                "started_at",
                "finished_at",
            )
        },
    }


def _side(row: models.Run, role: Role, side: models.Side | None) -> SideView:
    asked = row.request[role]
    revision = side.revision if side is not None else None
    return SideView(
        requested=asked["revision"],
        sha=revision.sha if revision else None,
        subject=revision.subject if revision else None,
        author=revision.author if revision else None,
        image=asked["image"],
        environment=asked["environment"],
        arguments=asked["arguments"],
    )


def _view(kind: type[View], row: Any, **given: Any) -> View:
    """A view whose fields are the row's columns of the same names, unless given."""
    names = [field.name for field in fields(kind) if field.name not in given]  # type: ignore[arg-type]
    return kind(**{name: getattr(row, name) for name in names}, **given)
