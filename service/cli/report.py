"""`paceline report`: runs as one HTML file that needs no service and no network."""

import sys
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from dashboards.report import render
from service.artifacts import ArtifactStore
from service.config import Settings
from service.db import migration
from service.db.session import make_engine, make_sessions
from service.errors import Refused


def report(
    run_ids: Annotated[list[UUID], typer.Argument(help="Runs, in the order of the report.")],
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("paceline-report.html"),
    title: Annotated[str, typer.Option()] = "Paceline report",
) -> None:
    """Write runs into one self-contained HTML file, read from the service's own database."""
    settings = Settings()
    engine = make_engine(settings.resolved_database_url)
    place = engine.url.render_as_string(hide_password=True)
    print(f"Reading {place}.", file=sys.stderr)
    lacking = migration.pending(engine)
    if lacking is not None:
        detail = (
            f"{lacking} Elsewhere than in the folder of `paceline up`, name the service's data by "
            "PACELINE_DATA_DIR, or its database by PACELINE_DATABASE_URL."
        )
        raise Refused("data_dir", detail)
    artifacts = ArtifactStore(settings.resolved_artifact_url)
    with make_sessions(engine)() as session:
        report_html = render(session, run_ids, title, artifacts)
    output.write_text(report_html, encoding="utf-8")
    print(f"{output.absolute()}")
