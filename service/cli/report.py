"""`paceline report`: runs as one HTML file that needs no service and no network."""

from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from dashboards.report import render
from service.config import Settings
from service.db.session import make_engine, make_sessions
from service.main import artifact_reader


def report(
    run_ids: Annotated[list[UUID], typer.Argument(help="Runs, in the order of the report.")],
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("paceline-report.html"),
    title: Annotated[str, typer.Option()] = "Paceline report",
) -> None:
    """Write runs into one self-contained HTML file."""
    settings = Settings()
    sessions = make_sessions(make_engine(settings.resolved_database_url))
    with sessions() as session:
        report_html = render(session, run_ids, title, artifact_reader(settings))
    output.write_text(report_html, encoding="utf-8")
    print(f"{output.absolute()}")
