"""`paceline worker` and `paceline beat`: the processes of production beside the API."""

import socket
from typing import Annotated

import typer

from runners.app import make_app, make_send
from runners.production import run_beat, run_worker
from runners.worker import Worker
from service import logs
from service.cli.production import production_settings
from service.db.session import make_engine, make_sessions


def work(
    cluster: Annotated[str, typer.Option(help="The cluster this machine belongs to.")],
    slot: Annotated[
        str | None,
        typer.Option(
            help="This machine's name in it, by default its host name: one worker of a slot "
            "measures at a time."
        ),
    ] = None,
) -> None:
    """Measure on this machine for a cluster; plan runs and reconcile meanwhile."""
    settings = production_settings()
    logs.configure(settings)
    app = make_app(settings)
    sessions = make_sessions(make_engine(settings.resolved_database_url))
    slot = slot or socket.gethostname()
    worker = Worker.serving(settings, sessions, make_send(app), cluster=cluster, slot=slot)
    run_worker(app, worker, cluster)


def beat() -> None:
    """Ring the reconciler regularly; one process is enough, two do no harm."""
    settings = production_settings()
    logs.configure(settings)
    run_beat(make_app(settings))
