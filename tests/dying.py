"""A worker that is killed by the N-th commit of its jobs, just before it or just after it.

    python -m tests.dying before|after N COMMAND [its arguments]

COMMAND is `worker` or `up`. For tests that kill a job at every point at which it writes: commits
of heartbeats, of requests and of reconciliations, which come by the clock, do not count.
"""

import itertools
import os
import signal
import sys
import threading
import traceback

from sqlalchemy import event
from sqlalchemy.orm import Session

from service.cli import main as cli

_BY_THE_CLOCK = {"_beat", "reconcile", "get_session"}  # functions
_REQUESTS = "AnyIO"  # threads


def main() -> None:
    """Work until the N-th commit."""
    moment, number = sys.argv[1], int(sys.argv[2])
    count = itertools.count(1)

    def die(_session: Session) -> None:
        functions = {frame.f_code.co_name for frame, _ in traceback.walk_stack(None)}
        if functions & _BY_THE_CLOCK or threading.current_thread().name.startswith(_REQUESTS):
            return
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Session, f"{moment}_commit", die)
    sys.argv[1:3] = []
    cli()


if __name__ == "__main__":
    main()
