"""One run: its verdict in a sentence, and everything that supports it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from dashboards.sections import RunSection, run_section
from service.api.deps import SessionDep
from service.db import reading

PATH = "/runs/{run_id}"
TEMPLATE = "run.html"


@dataclass(frozen=True, kw_only=True)
class Context:
    """The run's section."""

    section: RunSection


def build(session: SessionDep, run_id: UUID, pair: int | None = None) -> Context:
    """The run with the step times of `pair`, counted from 1. Raises NotFound."""
    run = reading.run_detail(session, run_id)
    traces = reading.traces(session, run_id, None if pair is None else pair - 1)
    return Context(section=run_section(run, traces, now=datetime.now(UTC)))
