"""Runs, newest first: what was asked, what came out, what it cost. All of its state is the URL."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from service.api.deps import SessionDep
from service.api.lists import RunQuery, RunQueryDep
from service.db import catalog, paging, reading
from service.db.paging import Cursor
from service.db.views import RunSummary

PATH = ""
TEMPLATE = "runs.html"


@dataclass(frozen=True, kw_only=True)
class Context:
    """A page of runs, the query it answers, and the queries of the pages beside it."""

    runs: Sequence[RunSummary]
    projects: Sequence[str]
    clusters: Sequence[str]
    query: RunQuery
    is_filtered: bool
    this: str
    older: str | None
    newer: str | None
    now: datetime


def build(session: SessionDep, query: RunQueryDep) -> Context:
    """The page of runs a query asks for. Raises Refused for a cursor that is none."""
    found = reading.run_list(session, query.which, cursor=query.place, limit=query.limit)
    return Context(
        runs=found.items,
        projects=[row.name for row in catalog.projects(session)],
        clusters=[row.name for row in catalog.clusters(session)],
        query=query,
        is_filtered=query.which != RunQuery().which,
        this=_address(query, query.place),
        older=_address(query, found.next) if found.next else None,
        newer=_address(query, found.previous) if found.previous else None,
        now=datetime.now(UTC),
    )


def _address(query: RunQuery, cursor: Cursor | None) -> str:
    """The query with another cursor, as it stands in a URL; empty where nothing is asked."""
    asked = query.model_dump(mode="json", exclude_defaults=True, exclude={"cursor"})
    asked |= {"cursor": paging.encode(cursor)} if cursor else {}
    return f"?{urlencode(asked, doseq=True)}" if asked else ""
