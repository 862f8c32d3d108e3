"""Runs as one HTML file that needs no service and no network: plotly.js and the CSS lie in it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from markupsafe import Markup
from sqlalchemy.orm import Session

from dashboards import assets, templating
from dashboards.pages.artifact import readable
from dashboards.sections import RunSection, run_section
from service.artifacts import ArtifactStore
from service.db import models, reading, results
from service.db.views import RunDetail

_TEMPLATE = "report.html"
_LOG_BYTES = 2**15
_MEANT_FOR_HTML = re.compile(r"<(?=/script|/style|!--)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Context:
    """Runs, in the order asked for; `logs` holds the end of each failed trial's log by its id."""

    title: str
    now: datetime
    sections: Sequence[RunSection]
    logs: dict[UUID, str]


def render(
    session: Session,
    run_ids: Sequence[UUID],
    title: str,
    artifacts: ArtifactStore | None = None,
) -> str:
    """HTML of the report; with `artifacts`, failed trials bring their logs. Raises NotFound."""
    now = datetime.now(UTC)
    sections: list[RunSection] = []
    logs: dict[UUID, str] = {}
    for run_id in run_ids:
        run = reading.run_detail(session, run_id)
        sections.append(run_section(run, reading.traces(session, run_id), now=now))
        if artifacts is not None:
            logs |= _failed_logs(session, run, artifacts)
    return to_html(Context(title=title, now=now, sections=sections, logs=logs))


def to_html(context: Context) -> str:
    """The document."""
    inlined = {
        "css": _inline("paceline.css"),
        "plotly": _inline("plotly.min.js"),
        "script": _inline("paceline.js"),
    }
    return templating.render(_TEMPLATE, vars(context) | inlined)


def _failed_logs(session: Session, run: RunDetail, artifacts: ArtifactStore) -> dict[UUID, str]:
    logs = {}
    for trial in run.trials:
        for file in trial.artifacts:
            if trial.failure_reason is not None and file.kind == "log":
                logs[file.id] = _end(results.artifact(session, file.id), artifacts)
    return logs


def _end(log: models.Artifact, artifacts: ArtifactStore) -> str:
    """The last part of a log, or that there is none any more."""
    try:
        return readable(artifacts.read(log.path)[-_LOG_BYTES:])
    except FileNotFoundError:
        return "This log is no longer in the artifact store."


def _inline(name: str) -> Markup:
    """A file of ours or of Plotly's, for a script or style element, which it must not close."""
    return Markup(_MEANT_FOR_HTML.sub(r"\\x3c", assets.text(name)))
