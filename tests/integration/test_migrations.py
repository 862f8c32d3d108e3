"""Migrations on SQLite and PostgreSQL: they build what the models say, and take it away again."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine

from service.db import migration, reading
from service.db.base import Base
from service.db.session import make_engine, make_sessions
from service.domain import Policy, Rule
from service.usecases import judge, recording
from tests import factories

NUM_REVISIONS = len(list((Path(__file__).parents[2] / "migrations" / "versions").glob("*.py")))


def tables(engine: Engine) -> set[str]:
    return set(sa.inspect(engine).get_table_names()) - {"alembic_version"}


def test_the_migrated_schema_is_the_models(engine: Engine):
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []


def test_names_of_constraints_and_indexes_agree_too(engine: Engine):
    inspector = sa.inspect(engine)
    for name, table in Base.metadata.tables.items():
        found = {index["name"] for index in inspector.get_indexes(name)}
        uniques = {unique["name"] for unique in inspector.get_unique_constraints(name)}
        assert {index.name for index in table.indexes} <= found
        expected = {c.name for c in table.constraints if isinstance(c, sa.UniqueConstraint)}
        assert expected == uniques
        foreign = {key["name"] for key in inspector.get_foreign_keys(name)}
        assert {c.name for c in table.foreign_key_constraints} == foreign


def test_finished_runs_get_the_verdict_they_were_shown_with(empty_engine: Engine):
    migration.upgrade(empty_engine, "0001")
    ident = iter(range(1, 100))
    at = "2026-05-04 12:00:00+00:00"

    def insert(table: str, **values: object) -> str:
        row = {"id": f"{next(ident):032x}", **values}
        names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        statement = sa.text(f"insert into {table} ({names}) values ({marks})")
        with empty_engine.begin() as connection:
            connection.execute(statement, row)
        return row["id"]

    project = insert("projects", name="p", source="/p", created_at=at)
    node = {"launcher": "local", "max_world_size": 1, "devices_per_node": 0, "arrangement": "abba"}
    cluster = insert("clusters", name="c", created_at=at, **node)
    case = insert("cases", project_id=project, name="n", key="k", world_size=1, spec="{}")

    def run(status: str, *verdicts: str) -> None:
        names = {"project_id": project, "cluster_id": cluster, "intent": "gate", "request": "{}"}
        run = insert("runs", **names, status=status, seed=1, created_at=at)
        counts = {"position": 0, "priority": 5, "attempt": 1, "lease_token": 0, "device_s": 0.0}
        job = insert("jobs", run_id=run, status=status, created_at=at, **counts)
        for verdict in verdicts:
            word, _, state = verdict.partition("-")
            insert(
                "comparisons",
                job_id=job,
                case_id=case,
                metric="step_time_s",
                is_gating=state != "shown",
                min_effect=0.02,
                verdict=word,
                num_pairs=3,
                algorithm="a",
                version=1,
                created_at=at,
                superseded_at=at if state == "past" else None,
                **dict.fromkeys(("reasons", "parameters", "inputs"), "{}"),
            )

    run("finished", "no_change", "regression", "inconclusive")
    run("finished", "no_change", "regression-shown", "broken-past")
    run("finished")
    run("running", "regression")
    migration.upgrade(empty_engine)
    with empty_engine.connect() as connection:
        found = connection.execute(sa.text("select verdict from runs order by id")).scalars().all()
    assert found == ["regression", "no_change", "missing", None]


def test_upgrading_twice_changes_nothing(engine: Engine):
    before = tables(engine)
    migration.upgrade(engine)
    assert tables(engine) == before == set(Base.metadata.tables)


def test_downgrading_leaves_nothing(engine: Engine):
    migration.downgrade(engine, "base")
    assert tables(engine) == set()
    migration.upgrade(engine)
    assert tables(engine) == set(Base.metadata.tables)


def test_what_is_pending(empty_engine: Engine):
    lacking = migration.pending(empty_engine)
    assert lacking is not None
    assert "paceline db upgrade" in lacking
    migration.upgrade(empty_engine)
    assert migration.pending(empty_engine) is None


def test_a_later_version_s_schema_serves_too(empty_engine: Engine):
    """Else nothing would be ready between `db upgrade` and the restart, nor after going back."""
    migration.upgrade(empty_engine)
    with empty_engine.begin() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
        assert migration.is_newer(connection)
    assert migration.pending(empty_engine) is None
    migration.upgrade(empty_engine)
    with empty_engine.connect() as connection:
        assert migration.current(connection) == "9999"


def test_a_checkout_may_lie_in_a_folder_of_any_name(
    empty_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "50% #1" / "migrations"
    shutil.copytree(migration._FOLDER, folder)
    monkeypatch.setattr(migration, "_FOLDER", folder)
    migration.upgrade(empty_engine)
    assert migration.pending(empty_engine) is None


def test_a_database_that_does_not_answer():
    engine = make_engine("sqlite:////nowhere/at/all/paceline.db")
    answer = migration.pending(engine)
    assert answer is not None
    assert "does not answer" in answer


def measured(engine: Engine) -> dict[str, object]:
    """Rows per table, and what a reader sees of the one run."""
    with make_sessions(engine)() as session:
        counts = {
            name: session.scalar(sa.select(sa.func.count()).select_from(table))
            for name, table in Base.metadata.tables.items()
        }
        (run,) = reading.run_list(session).items
        return {"counts": counts, "run": reading.run_detail(session, run.id)}


@pytest.mark.parametrize("revision", [f"{number:04}" for number in range(1, NUM_REVISIONS)])
def test_what_was_measured_survives_the_way_down_and_up(engine: Engine, revision: str):
    with make_sessions(engine).begin() as session:
        job = factories.job(session)
        environment = factories.environment(session, job)
        case_id = job.job_cases[0].case_id
        for position in range(3):
            result = factories.pair(np.random.default_rng(position))
            recording.record_pair(session, job, case_id, position, environment, result)
        policy = Policy(metrics={"step_time_s": Rule(min_effect=0.02, gate=True)})
        judge.judge_case(session, job.id, case_id, policy, num_cases=1, is_final=False)
    before = measured(engine)
    migration.downgrade(engine, revision)
    migration.upgrade(engine)
    assert measured(engine) == before


def test_a_request_without_a_baseline_meant_the_first_parent(engine: Engine):
    with make_sessions(engine).begin() as session:
        run = factories.run(session)
        named, unnamed = dict(run.request), {**run.request, "baseline": None}
        other = factories.run(session)
        run.request, other.request = named, unnamed
        ids = run.id, other.id
    migration.downgrade(engine, "0004")
    migration.upgrade(engine)
    with make_sessions(engine)() as session:
        found = [reading.run_summary(session, run_id).baseline.requested for run_id in ids]
    assert found == ["main", "faster^1"]
