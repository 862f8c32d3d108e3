"""Processes of ours that end when we do."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runners.variables import of_ours

_ROOT = Path(__file__).parents[1]


def bound(argv: Sequence[str]) -> list[str]:
    """A command that is sent SIGTERM when the thread that starts it ends, however it ends.

    setpriv(1) is in util-linux. For commands that do not watch a lifeline.
    """
    return ["setpriv", "--pdeathsig", "TERM", "--", *argv]


class Child:
    """`python -m MODULE` at work: it takes one order and gives one answer, each a line of JSON.

    The pipe to it is its lifeline.
    """

    def __init__(self, module: str, order: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=_ROOT,
            env=of_ours(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._lifeline, self._output = self._process.stdin, self._process.stdout
        with suppress(BrokenPipeError):  # killed already: it has no answer, which says so
            self._lifeline.write(json.dumps(asdict(order)).encode() + b"\n")
            self._lifeline.flush()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it works."""
        return self._process.poll()

    def release(self) -> None:
        """Let go of it; returns at its end."""
        with suppress(BrokenPipeError):
            self._lifeline.close()
        self._process.wait()

    def answer(self) -> dict[str, Any] | None:
        """Its answer, once it has ended; None where it was killed before it could give one."""
        self.release()
        line = self._output.read()
        self._output.close()
        if not line.endswith(b"\n"):
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer
