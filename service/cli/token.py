"""`paceline token`: who may ask. A new token is printed once, alone on stdout."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from service.cli.client import Client
from service.cli.terminal import minute
from service.config import Settings
from service.db import migration
from service.db.session import make_engine, make_sessions
from service.domain import Scope
from service.errors import Refused
from service.usecases import access

app = typer.Typer(name="token", help="Who may ask the service.", no_args_is_help=True)


@app.command("bootstrap")
def bootstrap() -> None:
    """Make the first token, with every right, directly in the configured database. Works once."""
    engine = make_engine(Settings().resolved_database_url)
    lacking = migration.pending(engine)
    if lacking is not None:
        raise Refused("PACELINE_DATABASE_URL", lacking)
    with make_sessions(engine).begin() as session:
        made = access.bootstrap(session)
    engine.dispose()
    _show(made.text)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who or what will hold it.")],
    scope: Annotated[list[Scope], typer.Option(help="A right; may be repeated.")],
    expires_days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Default: it lives until it is revoked.")
    ] = None,
) -> None:
    """Make a token."""
    body = {"name": name, "scopes": scope, "expires_days": expires_days}
    _show(Client(Settings()).post("/tokens", body)["token"])


@app.command("list")
def show() -> None:
    """List the tokens, newest first."""
    table = Table("id", "name", "scopes", "made by", "expires", "last used", "revoked", box=None)
    for token in Client(Settings()).items("/tokens"):
        times = (minute(token[key]) for key in ("expires_at", "last_used_at", "revoked_at"))
        scopes = " ".join(token["scopes"])
        table.add_row(token["id"], token["name"], scopes, token["created_by"], *times)
    Console().print(table)


@app.command("revoke")
def revoke(ident: Annotated[str, typer.Argument(metavar="ID", help="As listed.")]) -> None:
    """Make a token worthless at once."""
    token: dict[str, Any] = Client(Settings()).post(f"/tokens/{ident}/revoke")
    print(f"{token['name']} is revoked since {minute(token['revoked_at'])} UTC.")


def _show(text: str) -> None:
    print(text)
    print("Keep it now: it is not shown again. Set it as PACELINE_TOKEN.", file=sys.stderr)
