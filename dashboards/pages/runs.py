"""All runs, newest first: what was asked, what came out, what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy.orm import Session

from service.db import catalog, reading
from service.db.views import RunSummary

PATH = ""
TEMPLATE = "runs.html"

_LIMIT = 50


@dataclass(frozen=True, kw_only=True)
class Context:
    """`older` is the run before which the next page starts; None on the last one."""

    runs: Sequence[RunSummary]
    projects: Sequence[str]
    project: str | None
    is_first: bool
    older: UUID | None
    now: datetime


def build(session: Session, project: str | None = None, before: UUID | None = None) -> Context:
    """One page of runs, of one project if named. Raises NotFound for an unknown `before`."""
    found = reading.run_list(session, project=project, before=before, limit=_LIMIT + 1)
    return Context(
        runs=found[:_LIMIT],
        projects=[row.name for row in catalog.projects(session)],
        project=project,
        is_first=before is None,
        older=found[_LIMIT - 1].id if len(found) > _LIMIT else None,
        now=datetime.now(UTC),
    )
