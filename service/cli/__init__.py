"""The command line: `paceline`."""

import io
import logging
import sys
import traceback
from typing import Annotated

import typer

from service.cli import (
    api,
    backup,
    compare,
    database,
    doctor,
    project,
    report,
    runs,
    schedule,
    static,
    token,
    up,
    worker,
)
from service.cli.failures import ending
from service.cli.terminal import complain

logger = logging.getLogger(__name__)

app = typer.Typer(
    name="paceline",
    help="Did training get slower? Name two revisions, get a verdict with its statistics.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("api")(api.api)
app.command("compare")(compare.compare)
app.command("static")(static.static)
app.command("runs")(runs.runs)
app.command("report")(report.report)
app.command("worker")(worker.work)
app.command("beat")(worker.beat)
app.command("doctor")(doctor.doctor)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(project.app)
app.add_typer(schedule.app)
app.add_typer(database.app)
app.add_typer(token.app)


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a command that fails.")
    ] = False,
) -> None:
    """What every command takes, before its name."""
    if debug:
        logger.setLevel(logging.DEBUG)


def main() -> None:
    """Run the command; an error is a sentence and an exit code, which is never that of a verdict.

    Python itself would end a traceback with 1, which says `regression` to a script.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack δ
    try:
        app()
    except Exception as error:
        if logger.isEnabledFor(logging.DEBUG):
            traceback.print_exc()
        found = ending(error)
        for sentence in found.sentences:
            complain(sentence)
        sys.exit(found.code)
