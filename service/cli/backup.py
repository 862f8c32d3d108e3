"""`paceline backup` and `paceline restore`: everything that cannot be measured again, in a file."""

from pathlib import Path
from typing import Annotated

import typer

from service.config import Settings
from service.db import migration
from service.db.session import make_engine
from service.usecases import backup as archives

File = Annotated[Path, typer.Argument(help="The archive.", show_default=False)]


def backup(
    file: File,
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Keep logs and records of trials, too.")
    ] = False,
) -> None:
    """Copy the database into a new file, while the service goes on."""
    settings = Settings()
    engine = make_engine(settings.resolved_database_url)
    manifest = archives.back_up(
        engine, settings.resolved_artifact_url, file, with_artifacts=artifacts
    )
    print(f"{file.absolute()} holds {_words(manifest)}.")


def restore(
    file: File,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what the database holds.")
    ] = False,
) -> None:
    """Put a backup in the place of the database. Stop the service first."""
    settings = Settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    engine = make_engine(settings.resolved_database_url)
    manifest = archives.restore(engine, settings.resolved_artifact_url, file, force=force)
    print(f"Restored {_words(manifest)}, as they were at {manifest.made_at:%Y-%m-%d %H:%M} UTC.")
    if manifest.schema_revision != migration.head():
        print(
            f"The schema is at {manifest.schema_revision}, this version needs {migration.head()}: "
            "run `paceline db upgrade`."
        )


def _words(manifest: archives.Manifest) -> str:
    num_rows = sum(manifest.num_rows.values())
    database = f"{num_rows} rows in {len(manifest.num_rows)} tables"
    if not manifest.has_artifacts:
        return f"{database} and no artifacts"
    return f"{database} and {len(manifest.parts) - 1} artifacts"
