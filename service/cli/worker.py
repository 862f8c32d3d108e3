"""`paceline worker` and `paceline beat`: the processes of production beside the API."""

import os
import socket
from typing import Annotated

import typer

from runners import environment
from runners.app import make_app, make_send
from runners.isolation import open_data_dir
from runners.production import run_beat, run_worker
from runners.worker import Worker
from service import logs
from service.cli.production import production_settings
from service.db.session import make_engine, make_sessions, transaction
from service.usecases import registry


def worker(
    cluster: Annotated[str, typer.Option(help="The cluster this machine belongs to.")],
    slot: Annotated[
        str,
        typer.Option(help="This machine's name in it: one worker of a slot measures at a time."),
    ] = "0",
) -> None:
    """Measure on this machine for a cluster; plan runs and reconcile meanwhile."""
    settings = production_settings()
    logs.configure(settings)
    account = open_data_dir(settings)
    app = make_app(settings)
    send = make_send(app)
    sessions = make_sessions(make_engine(settings.resolved_database_url))
    with transaction(sessions, send) as session:
        slot_id = registry.serve_cluster(
            session,
            cluster,
            slot,
            num_cpus=len(os.sched_getaffinity(0)),
            num_devices=environment.num_devices(),
        ).id
    name = f"{cluster}.{slot}@{socket.gethostname()}-{os.getpid()}"
    context = Worker(
        name=name, settings=settings, sessions=sessions, send=send, slot_id=slot_id, account=account
    )
    run_worker(app, context, cluster)


def beat() -> None:
    """Ring the reconciler regularly; one process is enough, two do no harm."""
    settings = production_settings()
    logs.configure(settings)
    run_beat(make_app(settings))
