"""The log: lines for people, or JSON for machines; both carry the ids of what is being done."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

from service.config import LogFormat, Settings

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the HTTP request being answered; empty elsewhere."""

_WORKED_ON = ("run_id", "job_id", "trial_id", "worker")
_IDS = {"request_id": request_id} | {name: ContextVar(name, default="") for name in _WORKED_ON}
_OURS = ("service", "runners", "dashboards")


def configure(settings: Settings) -> None:
    """Make the process log to stderr as the settings ask.

    The level is that of our own lines. Libraries log what they send, with its addresses, headers
    and parameters, so of theirs only warnings are shown, whatever the level.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if settings.log_format is LogFormat.JSON else TextLines())
    level = logging.getLevelNamesMapping()[settings.log_level]
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)
    for package in _OURS:
        logging.getLogger(package).setLevel(level)


@contextmanager
def bound(**ids: object) -> Iterator[None]:
    """Has every line that is logged inside carry these ids: run_id, job_id, trial_id, worker."""
    with ExitStack() as stack:
        for name, ident in ids.items():
            stack.callback(_IDS[name].reset, _IDS[name].set(str(ident)))
        yield


def ids() -> dict[str, str]:
    """The ids in force, by name."""
    return {name: ident for name, variable in _IDS.items() if (ident := variable.get())}


class _Lines(logging.Formatter):
    """Times as RFC 3339 has them, in UTC."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class TextLines(_Lines):
    """A line for people; the ids stand at its end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s%(ids)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and below it the traceback if there is one."""
        record.ids = "".join(f" {name}={ident}" for name, ident in ids().items())
        return super().format(record)


class JsonLines(_Lines):
    """A line that is one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The object; `exception`, the traceback, and the ids are there only where they exist."""
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line | ids())
