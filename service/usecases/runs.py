"""The life of a run: requested, planned, executed, finished or cancelled."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from service import domain
from service.db import catalog, idempotency, leases, models
from service.db import runs as runs_db
from service.db.session import send_after_commit
from service.domain import CANCELLED, Failure, FailureReason, Intent, Kind, Role, SideSpec, Status
from service.errors import Conflict, Refused

PLAN_TASK = "paceline.plan_run"  # the id of a run
EXECUTE_TASK = "paceline.execute_jobs"  # the name of a cluster, whose workers all hear it


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What `POST /runs` asks for. Without a baseline the candidate's first parent is it; with the
    intent `calibrate`, the candidate itself. `kind` leaves out the cases of another.
    """

    project: str
    candidate: SideSpec
    baseline: SideSpec | None = None
    cluster: str = "local"
    suite: str | None = None
    cases: Sequence[str] | None = None
    kind: Kind | None = None
    intent: Intent = Intent.GATE
    max_pairs: int | None = None
    budget_device_hours: float | None = None


@dataclass(frozen=True, kw_only=True)
class ResolvedRevision:
    """A commit that exists in the project's mirror."""

    sha: str
    subject: str
    author: str
    committed_at: datetime


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the repository says of a run: its commits, the cases to measure, the policy."""

    candidate: ResolvedRevision
    baseline: ResolvedRevision
    cases: Sequence[domain.Case]
    unmeasurable: Mapping[str, str] = field(default_factory=dict)  # case name -> why
    policy: domain.Policy = field(default_factory=domain.Policy)


def request(session: Session, body: RunRequest, *, requested_by: str | None = None) -> models.Run:
    """Store a run, with the name of who asked, and have it planned. Raises NotFound and Refused."""
    project, cluster = place(session, body)
    run = models.Run(
        project_id=project.id,
        cluster_id=cluster.id,
        intent=body.intent,
        request=asdict(_with_baseline(body)),
        requested_by=requested_by,
        seed=secrets.randbelow(2**31),
    )
    session.add(run)
    session.flush()
    send_after_commit(session, PLAN_TASK, run.id)
    return run


def place(session: Session, body: RunRequest) -> tuple[models.Project, models.Cluster]:
    """Where a request belongs. Raises NotFound, and Refused where it cannot be served there."""
    project = catalog.project(session, body.project)
    cluster = catalog.cluster(session, body.cluster)
    if body.max_pairs is not None and body.max_pairs < domain.LOOKS[0]:
        raise Refused("max_pairs", f"At least {domain.LOOKS[0]} pairs are needed for a verdict.")
    for role, side in {Role.BASELINE: body.baseline, Role.CANDIDATE: body.candidate}.items():
        if side is not None and side.image is not None and cluster.launcher == "local":
            detail = f"The cluster {cluster.name} starts no containers; leave the image out."
            raise Refused(f"{role}.image", detail)
    return project, cluster


def _with_baseline(body: RunRequest) -> RunRequest:
    """The request with its baseline: by default the candidate's first parent, of an A/A itself."""
    if body.baseline is not None:
        return body
    if body.intent is Intent.CALIBRATE:
        return replace(body, baseline=body.candidate)
    parent = replace(body.candidate, revision=f"{body.candidate.revision}^1")
    return replace(body, baseline=parent)


def request_from_json(value: Mapping[str, Any]) -> RunRequest:
    """Request from what `asdict` made of it."""
    baseline, candidate = value["baseline"], SideSpec(**value["candidate"])
    return RunRequest(
        **{
            **value,
            "candidate": candidate,
            "baseline": baseline and SideSpec(**baseline),
            "intent": Intent(value["intent"]),
            "kind": domain.kind_asked(value),
        }
    )


def requested_sides(run: models.Run) -> tuple[SideSpec, SideSpec]:
    """Baseline and candidate as they were asked for."""
    return SideSpec(**run.request["baseline"]), SideSpec(**run.request["candidate"])


def policy_in_force(run: models.Run, policy: domain.Policy) -> domain.Policy:
    """The manifest's policy; what the request says of pairs and budget comes before it."""
    max_pairs = run.request["max_pairs"]
    budget = run.request["budget_device_hours"]
    return replace(
        policy,
        max_pairs=policy.max_pairs if max_pairs is None else max_pairs,
        budget_device_hours=policy.budget_device_hours if budget is None else budget,
    )


def plan(session: Session, run_id: UUID, plan: Plan) -> None:
    """Turn a queued run into one job. Planning a run twice changes nothing."""
    run = runs_db.lock(session, run_id)
    if run.status is not Status.QUEUED or runs_db.jobs(session, run_id):
        return
    baseline, candidate = requested_sides(run)
    run.baseline_side_id = _side(session, run, baseline, plan.baseline).id
    run.candidate_side_id = _side(session, run, candidate, plan.candidate).id
    run.policy = asdict(plan.policy)
    job = models.Job(run_id=run.id, cluster_id=run.cluster_id, position=0)
    session.add(job)
    session.flush()
    for position, case in enumerate(plan.cases):
        stored = catalog.case(session, run.project_id, case)
        row = models.JobCase(job_id=job.id, case_id=stored.id, position=position)
        row.unmeasurable = plan.unmeasurable.get(case.name)
        session.add(row)
    send_after_commit(session, EXECUTE_TASK, runs_db.run(session, run_id).cluster.name)


def fail(session: Session, run_id: UUID, failure: Failure) -> None:
    """End a run that cannot be planned, with the reason; one that was planned goes on.

    Where nothing is new since a schedule's run before, nothing has failed.
    """
    run = runs_db.lock(session, run_id)
    if run.status is not Status.QUEUED or runs_db.jobs(session, run_id):
        return
    if run.schedule_id is not None and failure.reason is FailureReason.SAME_SIDES:
        nothing = replace(failure, detail="Nothing is new: both sides are the same commit.")
        runs_db.finish(session, run, Status.CANCELLED, nothing)
    else:
        runs_db.finish(session, run, Status.FAILED, failure)


def settle(session: Session, run_id: UUID) -> None:
    """Give a run the status that follows from its jobs, once all of them have ended."""
    run = runs_db.lock(session, run_id)
    jobs = runs_db.jobs(session, run_id)
    if run.status.is_final or not all(job.status.is_final for job in jobs):
        return
    failed = next((job for job in jobs if job.status is Status.FAILED), None)
    if failed is not None:
        assert failed.failure_reason is not None
        assert failed.failure_detail is not None
        failure = Failure(reason=failed.failure_reason, detail=failed.failure_detail)
        runs_db.finish(session, run, Status.FAILED, failure)
    elif not jobs or any(job.status is Status.CANCELLED for job in jobs):
        runs_db.finish(session, run, Status.CANCELLED, CANCELLED)
    else:
        runs_db.finish(session, run, Status.FINISHED)


def cancel(session: Session, run_id: UUID) -> models.Run:
    """Stop a run: at once while it waits, at the worker's next heartbeat while it runs.

    Raises Conflict when it has ended.
    """
    run = runs_db.lock(session, run_id)
    if run.status.is_final:
        raise Conflict(f"Run {run_id} has ended ({run.status}); there is nothing to cancel.")
    run.cancel_requested_at = run.cancel_requested_at or leases.database_now(session)
    session.flush()
    runs_db.cancel_queued(session, run_id, run.cancel_requested_at)
    settle(session, run_id)
    return run


def reconcile(session: Session, *, grace_s: float, max_losses: int, idempotency_s: float) -> None:
    """Take back the jobs of dead workers, and have queued ones taken up that a free slot awaits.

    Answers to requests with an idempotency key are forgotten after `idempotency_s`.
    """
    idempotency.forget(session, older_than_s=idempotency_s)
    expired = leases.take_back_expired(session, grace_s=grace_s, max_losses=max_losses)
    for run_id in expired:
        settle(session, run_id)
    wake(session)


def note_reconciliation(session: Session) -> None:
    """Remember that the reconciler did its work just now."""
    now = leases.database_now(session)
    catalog.find_or_add(session, models.Reconciliation(id=0, at=now), id=0).at = now


def replan(session: Session, *, older_than_s: float) -> None:
    """Have runs planned whose message was lost."""
    for run_id in runs_db.unplanned(session, older_than_s=older_than_s):
        send_after_commit(session, PLAN_TASK, run_id)


def wake(session: Session) -> None:
    """Ring the bell of clusters that have a queued job and a free slot."""
    for cluster in runs_db.waiting_clusters(session):
        send_after_commit(session, EXECUTE_TASK, cluster)


def _side(
    session: Session, run: models.Run, spec: SideSpec, revision: ResolvedRevision
) -> models.Side:
    row = models.Revision(project_id=run.project_id, **asdict(revision))
    stored = catalog.find_or_add(session, row, project_id=run.project_id, sha=revision.sha)
    return catalog.side(session, stored, spec)
