"""The command line: `paceline`."""

import sys

import typer
from sqlalchemy.exc import OperationalError

from service.cli import (
    api,
    backup,
    compare,
    database,
    doctor,
    project,
    report,
    runs,
    token,
    up,
    worker,
)
from service.cli.client import RequestFailed
from service.cli.exit_codes import ExitCode
from service.errors import Conflict, PacelineError, Refused

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
app.command("runs")(runs.runs)
app.command("report")(report.report)
app.command("worker")(worker.worker)
app.command("beat")(worker.beat)
app.command("doctor")(doctor.doctor)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(project.app)
app.add_typer(database.app)
app.add_typer(token.app)


def main() -> None:
    """Run the command; an error of ours is a sentence and an exit code, never a traceback."""
    try:
        app()
    except RequestFailed as error:
        print(f"paceline: {error}", file=sys.stderr)
        is_denied = error.status in (401, 403)
        sys.exit(ExitCode.NOT_ALLOWED if is_denied else ExitCode.USAGE)
    except (Refused, Conflict) as error:
        print(f"paceline: {error}", file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    except OperationalError as error:
        detail = f"The database does not answer; look at PACELINE_DATABASE_URL. ({error.orig})"
        print(f"paceline: {detail}", file=sys.stderr)
        sys.exit(ExitCode.RUN_FAILED)
    except PacelineError as error:
        print(f"paceline: {error}", file=sys.stderr)
        sys.exit(ExitCode.RUN_FAILED)
