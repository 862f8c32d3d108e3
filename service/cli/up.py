"""`paceline up`: the whole service in one process, on this machine."""

import socket
from typing import Annotated

import typer

from service import logs
from service.cli.exit_codes import ExitCode
from service.cli.serving import serve
from service.cli.terminal import complain
from service.config import Settings
from service.db import migration
from service.db.session import make_engine
from service.main import create_app


def up(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on the loopback; default 8321.")
    ] = None,
) -> None:
    """Migrate the database, seed the local cluster, serve API, pages and a worker."""
    settings = Settings()
    if port is not None:
        settings = settings.model_copy(update={"port": port})
    logs.configure(settings)
    if _is_taken(settings.host, settings.port):
        complain(
            f"Port {settings.port} is taken; is a service running there already? "
            "Choose another with --port."
        )
        raise typer.Exit(ExitCode.USAGE)
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = make_engine(settings.resolved_database_url)
    migration.upgrade(engine)
    engine.dispose()
    app = create_app(settings)
    print(f"Paceline is at {settings.own_url}/ui (stop it with Ctrl-C).")
    print(f"Its data lies in {settings.data_dir.absolute()}.", flush=True)
    serve(app, host=settings.host, port=settings.port)


def _is_taken(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True
