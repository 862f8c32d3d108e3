"""Runs as they are stored: planned once, settled once, what is equal shared, on both databases."""

from datetime import datetime

import pytest
import sqlalchemy.exc
from sqlalchemy.orm import Session

from service import domain
from service.db import catalog, models
from service.db import runs as runs_db
from service.db.session import Message, Sessions, transaction
from service.domain import (
    Arrangement,
    Failure,
    FailureReason,
    Policy,
    Status,
)
from service.usecases import runs
from tests import factories
from tests.integration.measured import (
    POLICY,
    case_id,
)


def test_planning_twice_changes_nothing(session: Session):
    run = factories.run(session)
    for _ in range(2):
        runs.plan(session, run.id, factories.plan())
    assert len(runs_db.jobs(session, run.id)) == 1


def test_a_plan_may_hold_cases_that_cannot_be_measured(session: Session):
    cases = [factories.case(), factories.case("wide", world_size=64)]
    job = factories.job(session, cases=cases, unmeasurable={"wide": "It needs 64 ranks."})
    found = {link.case.name: link.unmeasurable for link in job.job_cases}
    assert found == {"tinylm": None, "wide": "It needs 64 ranks."}
    assert [link.case.name for link in job.job_cases] == ["tinylm", "wide"]


def test_a_case_and_a_policy_come_back_from_the_database(sessions: Sessions):
    case = factories.case(
        arguments=("--text", "é \U0001f3d6"), timeout_s=600.0, arrangement=Arrangement.ABBA
    )
    policy = Policy(metrics=POLICY.metrics, max_pairs=8, budget_device_hours=0.1)
    with transaction(sessions, factories.unsent) as session:
        job_id = factories.job(session, cases=[case], policy=policy).id
    with sessions() as session:
        job = runs_db.job(session, job_id)
        (link,) = job.job_cases
        again = domain.case_from_json(link.case.spec)
        assert again == case
        assert again.key == case.key == link.case.key
        assert domain.policy_from_json(job.run.policy or {}) == policy


def test_equal_sides_environments_and_cases_share_a_row(session: Session):
    first, second = factories.job(session), factories.job(session)
    assert first.run.baseline_side_id == second.run.baseline_side_id
    assert case_id(first) == case_id(second)
    assert factories.environment(session, first) is factories.environment(session, second)
    assert factories.environment(session, first, node="b") is not factories.environment(
        session, first
    )


def test_sides_that_differ_around_the_revision_are_different(session: Session):
    stored = factories.job(session).run.candidate_side
    assert stored is not None
    specs = [
        domain.SideSpec(revision="x"),
        domain.SideSpec(revision="x", environment={"NCCL_ALGO": "Ring"}),
        domain.SideSpec(revision="x", arguments=["--a"]),
        domain.SideSpec(revision="x", image="i"),
    ]
    sides = [catalog.side(session, stored.revision, spec) for spec in specs]
    assert sides[0] is stored
    assert len({side.id for side in sides}) == 4


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (Status.FINISHED, None, Status.FINISHED),
        (Status.FAILED, FailureReason.SETUP_FAILED, Status.FAILED),
        (Status.CANCELLED, FailureReason.CANCELLED, Status.CANCELLED),
        (Status.RUNNING, None, Status.QUEUED),
    ],
)
def test_a_run_settles_as_its_job_did(
    session: Session,
    job: models.Job,
    status: Status,
    reason: FailureReason | None,
    expected: Status,
):
    job.status, job.failure_reason, job.failure_detail = status, reason, "why"
    session.flush()
    runs.settle(session, job.run_id)
    run = runs_db.run(session, job.run_id)
    assert (run.status, run.failure_reason) == (expected, reason)
    assert (run.finished_at is not None) == expected.is_final


def test_a_run_that_ended_does_not_change_any_more(session: Session):
    run_id = factories.run(session).id
    for reason, detail in (
        (FailureReason.BAD_MANIFEST, "first"),
        (FailureReason.INTERNAL, "second"),
    ):
        runs.fail(session, run_id, Failure(reason=reason, detail=detail))
    runs.settle(session, run_id)
    run = runs_db.run(session, run_id)
    assert (run.status, run.failure_reason) == (Status.FAILED, FailureReason.BAD_MANIFEST)
    assert run.failure_detail == "first"


def test_a_cancelled_run_is_not_planned(session: Session):
    run = factories.run(session)
    runs.cancel(session, run.id)
    runs.plan(session, run.id, factories.plan())
    assert not runs_db.jobs(session, run.id)


def test_cancelling_a_planned_run_cancels_its_job(session: Session, job: models.Job):
    runs.cancel(session, job.run_id)
    assert runs_db.run(session, job.run_id).status is Status.CANCELLED
    assert runs_db.job(session, job.id).status is Status.CANCELLED


def test_a_time_without_a_zone_is_refused(session: Session, job: models.Job):
    job.finished_at = datetime(2026, 1, 1)
    with pytest.raises(sqlalchemy.exc.StatementError, match="no time zone"):
        session.flush()
    session.rollback()


def test_the_reconciler_finds_what_was_lost(sessions: Sessions):
    sent: list[Message] = []
    with transaction(sessions, factories.unsent) as session:
        unplanned = factories.run(session).id
        runs_db.lock(session, unplanned).created_at = factories.NOON
        young = factories.run(session).id
        factories.job(session)
        factories.job(session)
    with transaction(sessions, sent.append) as session:
        runs.reconcile(session, grace_s=10, max_losses=3, idempotency_s=86400)
        runs.replan(session, older_than_s=60)
    assert sent == [
        Message(runs.EXECUTE_TASK, ("local",)),
        Message(runs.PLAN_TASK, (str(unplanned),)),
    ], f"{young} is too young to be lost; one ring of the bell serves all jobs"
