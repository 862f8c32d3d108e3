"""On a large database every list a page shows comes out of an index."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.db import runs as runs_db
from service.db.paging import Cursor
from service.db.runs import RunFilter
from service.domain import Intent, Status, Verdict
from tests import factories

pytestmark = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)

NUM_RUNS = 200_000
# Ids are hashes of names, so that rows can name each other without being asked for.
SEED = f"""
create function pg_temp.ident(kind text, n bigint) returns uuid
  language sql immutable return md5(kind || n)::uuid;

insert into projects (id, name, source, created_at)
select pg_temp.ident('project', n), 'project-' || n, '/srv/' || n, now()
from generate_series(0, 19) n;

insert into clusters
  (id, name, launcher, max_world_size, devices_per_node, arrangement, created_at)
select pg_temp.ident('cluster', n), 'cluster-' || n, 'local', 8, 0, 'lockstep', now()
from generate_series(0, 4) n;

insert into revisions (id, project_id, sha, subject, author, committed_at)
select pg_temp.ident('revision', n), pg_temp.ident('project', n % 20),
  md5(n::text) || left(md5(n::text), 8), 'subject', 'author', now()
from generate_series(0, {NUM_RUNS // 4 + 1}) n;

insert into sides (id, revision_id, key, environment, arguments)
select pg_temp.ident('side', n), pg_temp.ident('revision', n), n, '{{}}', '[]'
from generate_series(0, {NUM_RUNS // 4 + 1}) n;

insert into runs (id, project_id, cluster_id, intent, status, verdict, request,
  baseline_side_id, candidate_side_id, seed, created_at)
select pg_temp.ident('run', n), pg_temp.ident('project', n % 20), pg_temp.ident('cluster', n % 5),
  case n % 10 when 0 then 'screen' else 'gate' end,
  case n % 100 when 0 then 'queued' when 1 then 'running' when 2 then 'failed' else 'finished' end,
  case when n % 100 < 3 then null when n % 50 = 7 then 'regression' else 'no_change' end,
  '{{}}', pg_temp.ident('side', n / 4), pg_temp.ident('side', n / 4 + 1), 1,
  timestamptz '2026-05-04 12:00Z' + n * interval '1 minute'
from generate_series(1, {NUM_RUNS}) n;

analyze
"""
FILTERS: dict[str, Any] = {
    "project": "project-3",
    "cluster": "cluster-2",
    "intent": Intent.SCREEN,
    "statuses": [Status.FAILED, Status.FINISHED],
    "verdicts": [Verdict.REGRESSION, Verdict.BROKEN],
    "revision": "c4ca",
    "since": factories.NOON,
    "until": factories.NOON.replace(year=2027),
}
CURSORS = [
    None,
    Cursor(created_at=factories.NOON.replace(month=8), id=str(UUID(int=7))),
    Cursor(created_at=factories.NOON.replace(month=8), id=str(UUID(int=7)), is_newer=True),
]


@contextmanager
def plans(engine: Engine) -> Iterator[list[str]]:
    """The plans of the statements that are put to the database meanwhile."""
    found: list[str] = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.startswith("explain"):
            cursor.execute(f"explain {statement}", parameters)
            found.append("\n".join(row[0] for row in cursor.fetchall()))

    sa.event.listen(engine, "before_cursor_execute", explain)
    yield found
    sa.event.remove(engine, "before_cursor_execute", explain)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    """A session on a database with many runs."""
    with engine.begin() as connection:
        connection.execute(sa.text(SEED))
    with Session(engine) as made:
        yield made


def test_no_list_reads_all_runs(engine: Engine, session: Session):
    with plans(engine) as found:
        for count in (0, 1, 2, len(FILTERS)):
            for names in combinations(FILTERS, count):
                which = RunFilter(**{name: FILTERS[name] for name in names})
                for cursor in CURSORS:
                    found.clear()
                    runs_db.newest(session, which, cursor=cursor)
                    assert "Seq Scan on runs" not in found[0], (names, cursor, found[0])
    session.execute(sa.text("drop index ix_runs_baseline_side_id"))
    with plans(engine) as found:
        runs_db.newest(session, RunFilter(revision="c4ca"))
    assert "Seq Scan on runs" in found[0], "an index that is missing would not be noticed"
