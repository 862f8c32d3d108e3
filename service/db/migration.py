"""The schema's version: bring a database to the head, or say what it lacks."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

_FOLDER = Path(__file__).parents[2] / "migrations"


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run the migrations up to `revision`."""
    config = _config()
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Run the migrations back to `revision`; `base` empties the schema."""
    config = _config()
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def pending(engine: Engine) -> str | None:
    """Why the database cannot be used yet; None where it is ready."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    try:
        with engine.connect() as connection:
            current = MigrationContext.configure(connection).get_current_revision()
    except SQLAlchemyError as error:
        return f"The database does not answer: {type(error).__name__}."
    if current != head:
        return f"The schema is at {current}, this version needs {head}: run `paceline db upgrade`."
    return None


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.set_main_option("path_separator", "os")
    return config
