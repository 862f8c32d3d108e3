"""A worker that is killed by its own N-th commit, just before it or just after it.

    python -m tests.dying before|after N [arguments of `paceline worker`]

For tests that kill a job at every point at which it writes. Heartbeats commit too, so where the
N-th commit falls varies a little; every N is another point all the same.
"""

import itertools
import os
import signal
import sys

from sqlalchemy import event
from sqlalchemy.orm import Session

from service.cli import main as cli


def main() -> None:
    """Work until the N-th commit."""
    moment, number = sys.argv[1], int(sys.argv[2])
    count = itertools.count(1)

    def die(_session: Session) -> None:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Session, f"{moment}_commit", die)
    sys.argv[1:3] = []
    cli()


if __name__ == "__main__":
    main()
