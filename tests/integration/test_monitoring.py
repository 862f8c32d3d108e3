"""/metrics on both databases: numbers, names and formats; and requests counted and logged."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service.api import health, monitoring, requests, runs, stack
from service.api.access import Access
from service.api.manners import MAX_BODY_BYTES
from service.api.monitoring import Monitor
from service.config import Settings
from service.db import leases, models
from service.db import monitoring as monitoring_db
from service.db.session import Message, Sessions, make_engine, make_sessions, transaction
from service.domain import Failure, FailureReason, Role, Status
from service.main import create_app
from service.usecases import recording
from service.usecases import runs as usecase
from tests import factories
from tests.architecture.source import ROOT
from tests.conftest import on_sqlite

BASE = "http://127.0.0.1:8321"
Numbers = dict[tuple[str, ...], float]  # by the name and the values of the labels


def make_app(engine: Engine) -> FastAPI:
    app = FastAPI()
    app.state.engine, app.state.sessions = engine, make_sessions(engine)
    app.state.access = Access(asks_token=False, key="k" * 32)
    monitor = Monitor(engine, app.state.sessions)
    app.state.send = monitor.counted(factories.unsent)
    stack.install(app, monitor, is_standalone=True)
    for router in (runs.router, health.router, monitoring.router):
        app.include_router(router)
    extra = APIRouter()
    extra.add_api_route("/pages/{name}", _page)
    app.include_router(extra, prefix="/ui")
    return app


def _page(name: str) -> str:
    if name == "broken":
        raise RuntimeError(name)
    return name


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with TestClient(make_app(engine), base_url=BASE, raise_server_exceptions=False) as made:
        yield made


def numbers(client: TestClient) -> Numbers:
    """All samples of ours, without their `_created` times."""
    response = client.get("/metrics")
    assert response.status_code == 200
    return {
        (sample.name.removeprefix("paceline_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if sample.name.startswith("paceline_") and not sample.name.endswith("_created")
    }


def recent(*, minutes: float, **values: Any) -> dict[str, Any]:
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    return {"started_at": at - timedelta(seconds=20), "finished_at": at, **values}


def record_pair(
    sessions: Sessions, job: models.Job, position: int, *, minutes: float, **values: Any
) -> None:
    with transaction(sessions, factories.unsent) as session:
        recording.record_pair(
            session,
            job,
            job.job_cases[0].case_id,
            position,
            factories.environment(session, job),
            factories.pair(**recent(minutes=minutes, **values)),
        )


def test_on_the_first_day_there_is_no_cluster(client: TestClient):
    found = numbers(client)
    assert found[("database_up",)] == 1
    assert not any("local" in key for key in found)


def test_when_the_reconciler_last_looked(client: TestClient, sessions: Sessions):
    key = ("last_reconciliation_age_seconds",)
    assert key not in numbers(client)
    for ago in (400, 5):
        with transaction(sessions, factories.unsent) as session:
            usecase.note_reconciliation(session)
            session.flush()
            session.scalars(sa.select(models.Reconciliation)).one().at -= timedelta(seconds=ago)
        assert ago <= numbers(client)[key] < ago + 60


def test_every_cluster_has_its_numbers_before_there_is_work(client: TestClient, sessions: Sessions):
    with transaction(sessions, factories.unsent) as session:
        factories.cluster(session, num_slots=3)
    found = numbers(client)
    of_cluster = {key: number for key, number in found.items() if "local" in key}
    assert of_cluster == {
        ("open_runs", "local", "queued"): 0,
        ("open_runs", "local", "running"): 0,
        ("open_jobs", "local", "queued"): 0,
        ("open_jobs", "local", "running"): 0,
        ("oldest_unplanned_run_age_seconds", "local"): 0,
        ("oldest_queued_job_age_seconds", "local"): 0,
        ("expired_leases", "local"): 0,
        ("slots", "local", "busy"): 0,
        ("slots", "local", "free"): 3,
        ("recent_pairs", "local", "valid"): 0,
    }


def test_the_state_of_runs_jobs_and_slots(client: TestClient, sessions: Sessions):
    ago = {"unplanned": 700, "queued": 300}
    with transaction(sessions, factories.unsent) as session:
        factories.cluster(session, num_slots=2)
        jobs = [factories.job(session) for _ in range(4)]
        unplanned = factories.run(session)
        now = leases.database_now(session)
        unplanned.created_at = now - timedelta(seconds=ago["unplanned"])
        jobs[3].created_at = now - timedelta(seconds=ago["queued"])
        jobs[3].priority = 9
    with transaction(sessions, factories.unsent) as session:
        for number, lease_s in enumerate((30, -1)):
            slot_id = factories.slot_id(session, number)
            assert leases.claim(session, slot_id, owner="a", lease_s=lease_s)
        session.get_one(models.Job, jobs[2].id).status = Status.CANCELLED
    found = numbers(client)
    assert found[("open_jobs", "local", "queued")] == 1
    assert found[("open_jobs", "local", "running")] == 2
    assert found[("open_runs", "local", "queued")] == 5
    assert found[("expired_leases", "local")] == 1
    assert found[("slots", "local", "busy")] == 2
    assert found[("slots", "local", "free")] == 0
    waited = found[("oldest_unplanned_run_age_seconds", "local")]
    assert ago["unplanned"] <= waited < ago["unplanned"] + 60
    waited = found[("oldest_queued_job_age_seconds", "local")]
    assert ago["queued"] <= waited < ago["queued"] + 60


def test_what_was_measured_recently(client: TestClient, sessions: Sessions):
    with transaction(sessions, factories.unsent) as session:
        job, old = factories.job(session), factories.job(session)
        old_run = session.get_one(models.Run, old.run_id)
        old_run.created_at -= timedelta(days=8)
        session.get_one(models.Job, job.id).device_s = 120.5
        session.get_one(models.Job, old.id).device_s = 1e6
    reasons = {Role.BASELINE: FailureReason.PEER_FAILED, Role.CANDIDATE: FailureReason.CRASHED}
    failed = {
        role: replace(factories.failed_trial(role, reason), **recent(minutes=1))
        for role, reason in reasons.items()
    }
    record_pair(sessions, job, 0, minutes=5)
    record_pair(sessions, job, 1, minutes=70)
    crash = Failure(reason=FailureReason.CRASHED, detail="Rank 1 exited with 3.")
    invalid = {"invalid": crash, "trials": failed}
    record_pair(sessions, job, 2, minutes=1, **invalid)
    record_pair(sessions, old, 0, minutes=5)
    found = numbers(client)
    assert found[("recent_pairs", "local", "valid")] == 1
    assert found[("recent_pairs", "local", "crashed")] == 1
    assert found[("recent_failed_trials", "local", "crashed")] == 1
    assert found[("recent_failed_trials", "local", "peer_failed")] == 1
    assert found[("recent_device_seconds", "local", "tinylm")] == 120.5


def test_without_a_database_the_scrape_says_so(tmp_path: Path):
    engine = make_engine(f"sqlite:///{tmp_path / 'no-such-folder' / 'test.db'}")
    with TestClient(make_app(engine), base_url=BASE) as client:
        client.get("/healthz")
        found = numbers(client)
    assert found[("database_up",)] == 0
    assert found[("http_requests_total", "GET", "/healthz", "2xx")] == 1
    assert not any(key[0].startswith("open_") for key in found)


def test_a_database_that_is_not_migrated_is_none(empty_engine: Engine):
    with TestClient(make_app(empty_engine), base_url=BASE) as client:
        assert numbers(client)[("database_up",)] == 0


def test_connections_in_use_are_those_of_others(client: TestClient, engine: Engine):
    assert numbers(client)[("database_connections_in_use",)] == 0
    with engine.connect():  # no transaction: on SQLite it would keep the scrape waiting
        assert numbers(client)[("database_connections_in_use",)] == 1


@on_sqlite
def test_requests_are_counted_by_template_never_by_what_they_name(client: TestClient):
    asked = [
        ("GET", "/runs/5f0c3a1e-0000-0000-0000-000000000000", 404),
        ("GET", "/runs/x", 422),
        ("PUT", "/runs", 405),
        ("GET", "/ui/pages/one", 200),
        ("GET", "/ui/pages/two", 200),
        ("GET", "/ui/pages/broken", 500),
        ("GET", "/nowhere/1", 404),
        ("GET", "/nowhere/2", 404),
        ("BREW", "/nowhere/3", 404),
    ]
    for method, path, status in asked:
        assert client.request(method, path).status_code == status
    assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 400
    found = numbers(client)
    counted = {key[1:]: n for key, n in found.items() if key[0] == "http_requests_total"}
    assert counted == {
        ("GET", "/runs/{run_id}", "4xx"): 2,
        ("PUT", "/runs", "4xx"): 1,
        ("GET", "/ui/pages/{name}", "2xx"): 2,
        ("GET", "/ui/pages/{name}", "5xx"): 1,
        ("GET", "unmatched", "4xx"): 3,
        ("other", "unmatched", "4xx"): 1,
    }
    durations = ("http_request_duration_seconds_count", "GET", "/ui/pages/{name}")
    assert found[durations] == 3


@on_sqlite
def test_what_is_refused_on_the_way_is_counted_too(client: TestClient):
    assert client.post("/runs", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert client.get("/healthz", headers={"host": "example.org"}).status_code == 400
    counted = {key[1:] for key in numbers(client) if key[0] == "http_requests_total"}
    assert {("POST", "unmatched", "4xx"), ("GET", "unmatched", "4xx")} <= counted


@on_sqlite
def test_each_request_is_one_line(client: TestClient, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "service.api.requests")
    for path in ("/ui/pages/one?token=secret", "/ui/pages/broken", "/healthz", "/readyz"):
        client.get(path)
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if r.name.endswith(".requests")]
    levels, texts = zip(*lines, strict=True)
    assert levels == ("INFO", "INFO", "DEBUG", "DEBUG")
    assert [re.sub(r"[\d.]+ ms", "T", text) for text in texts] == [
        "GET /ui/pages/{name} 200 in T",
        "GET /ui/pages/{name} 500 in T",
        "GET /healthz 200 in T",
        "GET /readyz 200 in T",
    ]


@on_sqlite
def test_messages_are_counted_by_task(engine: Engine):
    monitor = Monitor(engine, make_sessions(engine))

    def refuse(_message: Message) -> None:
        raise ConnectionError

    monitor.counted(factories.unsent)(Message("paceline.plan_run", ("1",)))
    monitor.counted(factories.unsent)(Message("paceline.plan_run", ("2",)))
    with pytest.raises(ConnectionError):
        monitor.counted(refuse)(Message("paceline.execute_job", ("3",)))

    def value(kind: str, task: str) -> float | None:
        return monitor.registry.get_sample_value(f"paceline_messages_{kind}_total", {"task": task})

    assert value("sent", "paceline.plan_run") == 2
    assert value("failed", "paceline.execute_job") == 1
    assert value("sent", "paceline.execute_job") is None


@on_sqlite
@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=1.0.0,*/*;q=0.1", "application/openmetrics-text"),
    ],
)
def test_the_format_is_the_one_asked_for(client: TestClient, accept: str, media_type: str):
    client.get("/healthz")
    response = client.get("/metrics", headers={"accept": accept})
    assert response.headers["content-type"].startswith(media_type)
    parse = parse_openmetrics if "openmetrics" in media_type else text_string_to_metric_families
    assert any(family.name == "paceline_database_up" for family in parse(response.text))


def test_applications_do_not_share_a_registry(tmp_path: Path):
    engine = make_engine(f"sqlite:///{tmp_path / 'test.db'}")
    first, second = (TestClient(make_app(engine), base_url=BASE) for _ in range(2))
    first.get("/healthz")
    assert not any(key[0] == "http_requests_total" for key in numbers(second))


def test_every_endpoint_of_the_service_has_one_template(tmp_path: Path):
    """Requests are counted by endpoint, so two routes may not share one."""
    app = create_app(Settings(data_dir=tmp_path))
    paths: dict[object, set[str | None]] = {}
    routes = [route for route in iter_route_contexts(app.routes) if route.endpoint is not None]
    for route in routes:
        paths.setdefault(route.endpoint, set()).add(route.path)
    assert all(len(found) == 1 for found in paths.values())
    found = set(requests.templates(app).values())
    assert {"/metrics", "/runs/{run_id}", "/ui/runs/{run_id}", "/openapi.json"} <= found


def documented() -> set[str]:
    text = (ROOT / "docs/operations.md").read_text()
    return set(re.findall(r"^\| `(paceline_\w+)", text, re.MULTILINE))


@on_sqlite
def test_every_service_metric_is_documented(engine: Engine):
    monitor = Monitor(engine, make_sessions(engine))
    families = {(family.name, family.type) for family in monitor.registry.collect()}
    ours = {
        f"{name}_total" if kind == "counter" else name
        for name, kind in families
        if name.startswith("paceline_")
    }
    assert documented() == ours


def test_alerts_use_series_that_exist():
    rules = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    used = {name.removesuffix("_bucket") for name in re.findall(r"\bpaceline_\w+", rules)}
    assert used
    assert used <= documented()


SEED = """
insert into runs (id, project_id, cluster_id, intent, status, request, seed, created_at,
    baseline_side_id, candidate_side_id)
select gen_random_uuid(), r.project_id, r.cluster_id, r.intent, 'finished', '{}'::jsonb, 0,
    now() - n * interval '12 hours', r.baseline_side_id, r.candidate_side_id
from runs r, generate_series(1, 20000) n;
insert into jobs (id, run_id, cluster_id, num_losses, position, priority, status, attempt,
    lease_token, device_s, created_at, finished_at)
select gen_random_uuid(), id, cluster_id, 0, 0, 5, 'finished', 1, 2, 9.0, created_at,
    created_at
from runs where status = 'finished';
insert into pairs (id, job_id, case_id, environment_id, position, arrangement, first,
    steps_per_turn, effects, started_at, finished_at)
select gen_random_uuid(), j.id, p.case_id, p.environment_id, 0, 'abba', 'baseline', 1, '{}',
    j.created_at, j.created_at
from jobs j, pairs p where j.status = 'finished';
insert into trials (id, job_id, case_id, side_id, pair_id, role, command, software,
    num_warmup_steps, started_at, finished_at)
select gen_random_uuid(), p.job_id, p.case_id, r.baseline_side_id, p.id, 'baseline', '',
    '{}'::jsonb, 0, p.started_at, p.finished_at
from pairs p join jobs j on j.id = p.job_id join runs r on r.id = j.run_id
where j.status = 'finished';
"""


@pytest.mark.postgres
@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_no_query_reads_all_that_was_ever_measured(engine: Engine, sessions: Sessions):
    with transaction(sessions, factories.unsent) as session:
        job = factories.job(session)
    record_pair(sessions, job, 0, minutes=5)
    with engine.begin() as connection:
        for statement in SEED.split(";\n"):
            connection.exec_driver_sql(statement)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("vacuum analyze")

    asked: list[tuple[str, object]] = []
    with sessions() as session:
        sa.event.listen(
            engine,
            "before_cursor_execute",
            lambda _c, _u, sql, values, *_: asked.append((sql, values)),
        )
        monitoring_db.snapshot(session)
        statements = [(sql, values) for sql, values in asked if sql.startswith("SELECT")]
        assert len(statements) >= 8
        for sql, values in statements:
            plan = session.connection().exec_driver_sql(f"explain {sql}", values)
            text = "\n".join(line for (line,) in plan)
            assert not re.search(r"Seq Scan on (runs|jobs|pairs|trials)", text), f"{sql}\n{text}"
