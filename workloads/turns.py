"""Times the steps of a training loop and, when it is measured in lock-step, waits for its turn.

Dependency-free, so that a trainer may import or vendor this file. In a loop:

    turns = Turns(steps=400, records=records)   # GPU: synchronize=torch.cuda.synchronize
    while turns.step():                         # ends the last step, waits, starts the next
        loss = train_one_step()
        turns.note(tokens=tokens, loss=loss.detach())

A step lasts from one return of `step()` to the next call. Waiting is never timed, nor is writing
the records. Without PACELINE_TURN_SOCKET nothing waits: the loop runs freely for `steps` steps.

Protocol, text lines on a Unix socket, one connection per rank:

    rank:    hello RANK WORLD_SIZE PID
    server:  go STEPS          the turn: so many steps
    rank:    done NS NS ...    their times; the rank is parked again
    server:  stop              no more turns: step() returns False on every rank
    rank:    bye               the rank has run its `steps` and leaves

A rank that loses the server runs free to its end: leaving at once would strand its peers in a
collective.
"""

import os
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

SOCKET_VARIABLE = "PACELINE_TURN_SOCKET"
FREE_TURN_STEPS = 50


class StepSink(Protocol):
    """Where finished steps go: `records.Records`, or anything with its `step`."""

    def step(self, index: int, time_s: float, **fields: Any) -> None: ...


def _nothing() -> None:
    """CPU work is finished when the call returns."""


def _seconds(start_ns: int, end_ns: int) -> float:
    return (end_ns - start_ns) / 1e9


class Turns:
    """Steps of one rank. `mark` and `seconds` replace the wall clock, such as by CUDA events.

    The wall clock must wait for the device after every step. Events lie in the device's own queue:
    one synchronisation a turn is enough, and a free-running loop takes turns of FREE_TURN_STEPS.
    """

    def __init__(
        self,
        steps: int,
        records: StepSink | None = None,
        synchronize: Callable[[], None] = _nothing,
        mark: Callable[[], Any] = time.perf_counter_ns,
        seconds: Callable[[Any, Any], float] = _seconds,
    ) -> None:
        self._steps, self._records = steps, records
        self._synchronize, self._mark, self._seconds = synchronize, mark, seconds
        self._is_wall_clock = mark is time.perf_counter_ns
        self._index = 0  # steps finished
        self._turn = -1
        self._left = 0  # steps left in this turn
        self._start: Any = None  # mark of the running step
        self._notes: dict[str, Any] = {}
        self._pending: list[tuple[int, Any, Any, dict[str, Any]]] = []
        self._server = self._connect()

    def step(self) -> bool:
        """End the running step, wait for the next turn; False when there is no more to do."""
        if self._start is not None:
            self._finish_step()
        if self._index == self._steps:
            self._say("bye")
            return False
        if self._left == 0 and not self._wait():
            return False
        self._start = self._mark()
        return True

    def note(self, **fields: Any) -> None:
        """Attach facts to the running step; a tensor is read (`.item()`) after the turn."""
        self._notes.update(fields)

    def _finish_step(self) -> None:
        self._left -= 1
        if self._left == 0 or self._is_wall_clock:
            self._synchronize()
        self._pending.append((self._index, self._start, self._mark(), self._notes))
        self._start, self._notes = None, {}
        self._index += 1
        if self._left == 0:
            self._flush()

    def _flush(self) -> None:
        """Turn marks into seconds, write the records, then report the turn: done means idle."""
        self._synchronize()
        times = [self._seconds(start, end) for _, start, end, _ in self._pending]
        if self._records is not None:
            for (index, _, _, notes), time_s in zip(self._pending, times, strict=True):
                facts = {k: v.item() if hasattr(v, "item") else v for k, v in notes.items()}
                self._records.step(index, time_s, turn=self._turn, **facts)
        self._pending = []
        self._say("done " + " ".join(str(round(time_s * 1e9)) for time_s in times))

    def _wait(self) -> bool:
        """Park until the server hands over the turn; False when it says stop."""
        words = self._hear()
        if words and words[0] == "stop":
            return False
        # A lost server answers nothing: run free to the end.
        free = 1 if self._is_wall_clock else FREE_TURN_STEPS
        self._left = min(int(words[1]) if words else free, self._steps - self._index)
        self._turn += 1
        return True

    def _connect(self) -> socket.socket | None:
        path = os.environ.get(SOCKET_VARIABLE)
        if not path:
            return None
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        self._lines = server.makefile("r", encoding="ascii")
        rank, world_size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
        server.sendall(f"hello {rank} {world_size} {os.getpid()}\n".encode())
        return server

    def _say(self, line: str) -> None:
        if self._server is not None:
            try:
                self._server.sendall(line.encode() + b"\n")
            except OSError:
                self._server = None

    def _hear(self) -> list[str]:
        try:
            words = self._lines.readline().split() if self._server is not None else []
        except OSError:
            words = []
        if not words:
            self._server = None
        return words
