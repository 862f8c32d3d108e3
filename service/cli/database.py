"""`paceline db`: the database's schema."""

import typer

from service.config import Settings
from service.db import migration
from service.db.session import make_engine

app = typer.Typer(name="db", help="The database's schema.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `upgrade` a subcommand although it is the only one."""


@app.command("upgrade")
def upgrade() -> None:
    """Bring the configured database to this version's schema."""
    settings = Settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    engine = make_engine(settings.resolved_database_url)
    migration.upgrade(engine)
    with engine.connect() as connection:
        whose = "a later version" if migration.is_newer(connection) else "this version"
    print(f"{engine.url.render_as_string(hide_password=True)} has the schema of {whose}.")
