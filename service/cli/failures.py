"""How a command ends that fails: in sentences, and with an exit code that no verdict has."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from service.cli.client import RequestFailed
from service.cli.exit_codes import ExitCode
from service.config import Settings
from service.db.session import DATABASE_FAILURES
from service.errors import Conflict, NotFound, PacelineError, Refused


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What is said of an error, and the exit code."""

    sentences: Sequence[str]
    code: ExitCode


def ending(error: Exception) -> Ending:
    """How a command ends after this error."""
    sentences = [str(error)]
    match error:
        case ValidationError(title=Settings.__name__):
            return Ending(sentences=_of_settings(error), code=ExitCode.USAGE)
        case RequestFailed(status=401 | 403):
            return Ending(sentences=sentences, code=ExitCode.NOT_ALLOWED)
        case RequestFailed() | Refused() | Conflict() | NotFound():
            return Ending(sentences=sentences, code=ExitCode.USAGE)
        case PacelineError():
            return Ending(sentences=sentences, code=ExitCode.RUN_FAILED)
    what = f"{type(error).__name__}: {_first_line(error)}"
    lead = "The command failed"
    if isinstance(error, DATABASE_FAILURES):
        lead = "The database does not answer; see PACELINE_DATABASE_URL and PACELINE_DATA_DIR"
    text = f"{lead}. ({what}) `paceline --debug` before the command's name shows the traceback."
    return Ending(sentences=[text], code=ExitCode.RUN_FAILED)


def _of_settings(error: ValidationError) -> list[str]:
    """A sentence per variable; what it holds is not repeated, it may be a secret."""
    return [
        f"PACELINE_{'_'.join(map(str, item['loc'])).upper()}: "
        f"{item['msg'].removeprefix('Value error, ')}."
        for item in error.errors(include_input=False, include_url=False)
    ]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
