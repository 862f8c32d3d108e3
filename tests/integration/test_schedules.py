"""Schedules: set over HTTP, and run by the clock, each time once."""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from service.db import models
from service.db import runs as runs_db
from service.db.leases import database_now
from service.db.session import Sessions, transaction
from service.domain import Failure, FailureReason, Kind, SideSpec, Status, Verdict
from service.usecases import runs, schedules
from service.usecases.runs import RunRequest
from tests import factories
from tests.api import Outbox, pointers, problem

NIGHTLY = "/projects/tinylm/schedules/nightly"
BODY = {"cron": "0 2 * * *", "candidate": "main"}


@pytest.fixture
def sessions(app: FastAPI) -> Sessions:
    made: Sessions = app.state.sessions
    return made


class Clock:
    """The schedule `nightly`, whose time comes when the test says so."""

    def __init__(self, sessions: Sessions, outbox: Outbox) -> None:
        self._sessions, self._outbox = sessions, outbox

    def strike(self) -> None:
        """Let its time come, and the reconciler look twice."""
        with self._sessions.begin() as session:
            self._row(session).next_at = database_now(session) - timedelta(hours=5)
        self.look()
        self.look()

    def look(self) -> None:
        with transaction(self._sessions, self._outbox) as session:
            schedules.start_due(session)

    def runs(self) -> Sequence[models.Run]:
        """Its runs, oldest first."""
        with self._sessions() as session:
            own = models.Run.schedule_id == self._row(session).id
            query = select(models.Run).where(own)
            return session.scalars(query.order_by(models.Run.created_at)).all()

    def fail(self, run: models.Run) -> None:
        """End a run that could not be planned."""
        with transaction(self._sessions, factories.unsent) as session:
            reason = FailureReason.SOURCE_UNAVAILABLE
            runs.fail(session, run.id, Failure(reason=reason, detail="The host is down."))

    def end(self, *verdicts: Verdict, sha: str = "b" * 40, with_new_case: bool = False) -> None:
        """Plan the newest run and end it with a verdict for each of its cases."""
        cases = [factories.case(f"case-{number}") for number in range(len(verdicts))]
        unmeasurable = {}
        if with_new_case:
            cases.append(factories.case("new", world_size=4))
            verdicts = (*verdicts, Verdict.MISSING)
            unmeasurable = {"new": "The baseline has no such case."}
        plan = factories.plan(
            candidate=factories.revision(sha), cases=cases, unmeasurable=unmeasurable
        )
        run_id = self.runs()[-1].id
        with transaction(self._sessions, factories.unsent) as session:
            runs.plan(session, run_id, plan)
            (job,) = runs_db.jobs(session, run_id)
            for link, verdict in zip(job.job_cases, verdicts, strict=True):
                session.add(comparison(job.id, link.case_id, verdict))
                session.add(comparison(job.id, link.case_id, Verdict.INCONCLUSIVE, gates=False))
            session.flush()
            runs_db.finish(session, runs_db.lock(session, run_id), Status.FINISHED)

    def baseline(self) -> str:
        """What its newest run is compared with."""
        found: str = self.runs()[-1].request["baseline"]["revision"]
        return found

    def row(self) -> models.Schedule:
        with self._sessions() as session:
            return self._row(session)

    def _row(self, session: Session) -> models.Schedule:
        return session.scalars(select(models.Schedule).filter_by(name="nightly")).one()


def comparison(
    job_id: UUID, case_id: UUID, verdict: Verdict, *, gates: bool = True
) -> models.Comparison:
    return models.Comparison(
        job_id=job_id,
        case_id=case_id,
        metric="step_time_s" if gates else "peak_rss_bytes",
        is_gating=gates,
        min_effect=0.02,
        verdict=verdict,
        reasons=[],
        num_pairs=3,
        algorithm="a",
        version=1,
        parameters={},
        inputs=[],
    )


@pytest.fixture
def clock(client: TestClient, sessions: Sessions, outbox: Outbox) -> Clock:
    assert client.put(NIGHTLY, json=BODY).status_code == 201
    return Clock(sessions, outbox)


def test_a_schedule_is_set_read_changed_and_taken_away(client: TestClient):
    made = client.put(NIGHTLY, json=BODY)
    assert made.status_code == 201
    assert made.json() == client.get(NIGHTLY).json()
    assert client.get("/schedules").json()["items"] == [made.json()]
    assert made.json()["request"]["candidate"]["revision"] == "main"
    assert made.json()["request"]["baseline"] is None
    assert made.json()["created_by"] == "local"
    changed = client.put(NIGHTLY, json={**BODY, "cron": "0 4 * * *", "baseline": "v1"})
    assert changed.status_code == 200
    assert changed.json()["next_at"].endswith("T04:00:00Z")
    assert changed.json()["request"]["baseline"]["revision"] == "v1"
    assert client.get("/schedules").json()["items"] == [changed.json()]
    assert client.delete(NIGHTLY).json() == changed.json()
    assert client.get("/schedules").json()["items"] == []
    for gone in (client.get(NIGHTLY), client.delete(NIGHTLY)):
        assert "tinylm/nightly" in problem(gone, 404)["detail"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"cron": "0 0 30 2 *"}, "/cron"),
        ({"cron": "soon"}, "/cron"),
        ({"cron": "0" * 101}, "/cron"),
        ({"candidate": "--x"}, "/candidate/revision"),
        ({"candidate": {"revision": "main", "image": "img"}}, "/candidate/image"),
        ({"max_pairs": 2}, "/max_pairs"),
        ({"project": "tinylm"}, "/project"),
    ],
)
def test_what_no_run_could_be_asked_for_is_refused(
    client: TestClient, change: dict[str, Any], pointer: str
):
    assert pointers(client.put(NIGHTLY, json={**BODY, **change})) == [pointer]
    assert client.get("/schedules").json()["items"] == []


def test_unknown_names_are_refused(client: TestClient):
    problem(client.put("/projects/other/schedules/nightly", json=BODY), 404)
    problem(client.put(NIGHTLY, json={**BODY, "cluster": "other"}), 404)
    problem(client.put(f"/projects/tinylm/schedules/{'n' * 65}", json=BODY), 422)


def test_many_may_set_a_schedule_at_once(client: TestClient):
    statuses: list[int] = []
    barrier = threading.Barrier(4)

    def put() -> None:
        barrier.wait()
        statuses.append(client.put(NIGHTLY, json=BODY).status_code)

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 200, 200, 201]


def test_before_its_time_nothing_is_asked_for(clock: Clock):
    clock.look()
    assert clock.runs() == []


def test_a_time_that_was_missed_is_made_up_for_once(clock: Clock, outbox: Outbox):
    clock.strike()
    (run,) = clock.runs()
    assert run.request["candidate"]["revision"] == "main"
    assert run.request["baseline"]["revision"] == "main^1"
    assert run.requested_by == "schedule nightly"
    assert [message.ids for message in outbox.messages] == [(str(run.id),)]
    next_at = clock.row().next_at
    assert (next_at.hour, next_at.minute) == (2, 0)
    assert next_at > datetime.now(next_at.tzinfo)


def test_a_time_is_left_out_while_the_run_before_goes_on(clock: Clock):
    clock.strike()
    assert clock.row().left_out_at is None
    clock.strike()
    assert len(clock.runs()) == 1
    assert clock.row().left_out_at is not None
    clock.fail(clock.runs()[0])
    clock.strike()
    assert len(clock.runs()) == 2


def test_one_that_cannot_be_served_keeps_no_other_from_its_run(
    clock: Clock, client: TestClient, sessions: Sessions
):
    broken = {"request": {"candidate": "of a version that is gone"}, "cron": "soon"}
    for field, value in broken.items():
        client.put(f"/projects/tinylm/schedules/{field}", json=BODY)
        with sessions.begin() as session:
            row = session.scalars(select(models.Schedule).filter_by(name=field)).one()
            setattr(row, field, value)
            row.next_at = database_now(session) - timedelta(hours=6)
    clock.strike()
    assert len(clock.runs()) == 1
    for field in broken:
        left_out = client.get(f"/projects/tinylm/schedules/{field}")
        assert left_out.json()["left_out_at"] is not None


def test_the_baseline_is_the_last_commit_that_was_settled(clock: Clock):
    clock.strike()
    clock.fail(clock.runs()[-1])
    last = "main^1"
    for number, verdict in enumerate(Verdict):
        clock.strike()
        assert clock.baseline() == last
        sha = f"{number:040x}"
        clock.end(verdict, sha=sha)
        if verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.NO_CHANGE):
            last = sha
    clock.strike()
    assert clock.baseline() == last != "main^1"


def test_a_regression_of_one_case_settles_no_other(clock: Clock):
    clock.strike()
    clock.end(Verdict.REGRESSION, Verdict.INVALID)
    assert clock.runs()[-1].verdict is Verdict.REGRESSION
    clock.strike()
    assert clock.baseline() == "main^1"
    clock.end(Verdict.REGRESSION, Verdict.NO_CHANGE, sha="c" * 40)
    clock.strike()
    assert clock.baseline() == "c" * 40


def test_a_case_that_is_new_is_missing_once(clock: Clock):
    clock.strike()
    clock.end(Verdict.NO_CHANGE, sha="c" * 40, with_new_case=True)
    assert clock.runs()[-1].verdict is Verdict.MISSING
    clock.strike()
    assert clock.baseline() == "c" * 40


def test_nothing_but_a_new_case_settles_nothing(clock: Clock):
    clock.strike()
    clock.end(with_new_case=True)
    clock.strike()
    assert clock.baseline() == "main^1"


def test_another_branch_begins_anew(client: TestClient, clock: Clock):
    clock.strike()
    clock.end(Verdict.NO_CHANGE)
    client.put(NIGHTLY, json={**BODY, "candidate": "release-2"})
    clock.strike()
    assert clock.baseline() == "release-2^1"


def test_what_is_due_stays_due_when_it_is_set_again(
    client: TestClient, clock: Clock, sessions: Sessions
):
    with sessions.begin() as session:
        due_at = database_now(session) - timedelta(minutes=3)
        session.scalars(select(models.Schedule)).one().next_at = due_at
    assert client.put(NIGHTLY, json={**BODY, "suite": "all"}).status_code == 200
    assert clock.row().next_at == due_at
    clock.look()
    (run,) = clock.runs()
    assert run.request["suite"] == "all"


@pytest.mark.parametrize(
    ("change", "baseline"),
    [({"baseline": "v1"}, "v1"), ({"intent": "calibrate"}, "main")],
)
def test_a_baseline_that_is_named_stays(
    client: TestClient, clock: Clock, change: dict[str, Any], baseline: str
):
    client.put(NIGHTLY, json={**BODY, **change})
    for _ in range(2):
        clock.strike()
        assert clock.baseline() == baseline
        clock.end(Verdict.NO_CHANGE)


def test_nothing_new_is_no_failure(clock: Clock, sessions: Sessions, client: TestClient):
    clock.strike()
    (run,) = clock.runs()
    same = Failure(reason=FailureReason.SAME_SIDES, detail="Both sides are commit bbbb.")
    with sessions.begin() as session:
        runs.fail(session, run.id, same)
    view = client.get(f"/runs/{run.id}").json()
    assert (view["status"], view["verdict"], view["failure_reason"]) == (
        "cancelled",
        None,
        "same_sides",
    )
    assert view["headline"].startswith("Nothing is new")
    assert view["headline"].endswith("There is no verdict.")


def test_runs_outlive_their_schedule(clock: Clock, client: TestClient, sessions: Sessions):
    clock.strike()
    (run,) = clock.runs()
    assert client.delete(NIGHTLY).status_code == 200
    view = client.get(f"/runs/{run.id}").json()
    assert (view["status"], view["requested_by"]) == ("queued", "schedule nightly")


def test_two_reconcilers_ask_once(clock: Clock, sessions: Sessions):
    with sessions.begin() as session:
        session.scalars(select(models.Schedule)).one().next_at = database_now(session) - timedelta(
            minutes=1
        )
    barrier = threading.Barrier(4)

    def look() -> None:
        barrier.wait()
        clock.look()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clock.runs()) == 1


def test_a_request_comes_back_from_the_database(sessions: Sessions):
    with transaction(sessions, factories.unsent) as session:
        for body in (
            RunRequest(project="tinylm", candidate=SideSpec(revision="main", arguments=[])),
            RunRequest(
                project="tinylm",
                candidate=SideSpec(revision="main", arguments=[]),
                baseline=SideSpec(revision="v1", environment={"A": "1"}, arguments=["--x"]),
                cases=["tinylm"],
                kind=Kind.STATIC,
                max_pairs=8,
                budget_device_hours=0.5,
            ),
        ):
            row, _ = schedules.put(session, "weekly", "0 0 * * 0", body, created_by="ada")
            session.flush()
            session.expire_all()
            assert runs.request_from_json(row.request) == body
