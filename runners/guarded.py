"""The worker's end of a guard: starts one, learns how its command ended, lets go of it."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from runners import guard
from runners.guard import Order, Outcome

_ROOT = Path(__file__).parents[1]


class Guarded:
    """A command under a guard of its own."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._outcome: Outcome | None = None
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "runners.guard"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._guard.stdin is not None
        self._guard.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self._guard.stdin.flush()

    def poll(self) -> Outcome | None:
        """How the command ended; None while it runs."""
        if self._outcome is None and self._guard.poll() is not None:
            self._outcome = self._read_outcome()
        return self._outcome

    def cancel(self) -> Outcome:
        """End the command by closing the guard's lifeline; returns when nothing of it is alive."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        outcome = self.poll()
        assert outcome is not None
        return outcome

    def _read_outcome(self) -> Outcome:
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        line = self._guard.stdout.read()
        self._guard.stdin.close()
        self._guard.stdout.close()
        if line.strip():
            return Outcome(**json.loads(line))
        # The guard itself was killed and could not clean up.
        survivors = guard.sweep(self._order.tag, self._order.kill_grace_s)
        return Outcome(
            ended="released",
            exit_code=None,
            wall_s=0.0,
            num_survivors=survivors,
            detail=f"Its guard ended with {self._guard.returncode}.",
        )
