"""The program `paceline`: hides its process before anything that may take time."""

import ctypes
from contextlib import suppress

_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """Make this process's memory and environment unreadable for others of its user (prctl(2)).

    They hold tokens and the passwords of database and broker; trials may have the same user.
    """
    with suppress(AttributeError):  # not Linux: nothing is measured there
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def main() -> None:
    """Run the command line."""
    hide_process()
    from service.cli import main as run  # importing it takes seconds

    run()
