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
    server:  stop              no more turns; so does the end of the connection
    rank:    bye               the rank has run its `steps` and leaves
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

SOCKET_VARIABLE = "PACELINE_TURN_SOCKET"
FLUSH_S = 1.0  # a free loop timed by events writes so often, or it would seem to hang
RESERVED = {"v", "kind", "rank", "at", "step", "index", "time_s", "turn"}  # a step record's own


class StepSink(Protocol):
    """Where finished steps go: `records.Records`, or anything with its `step`."""

    def step(self, index: int, time_s: float, **fields: Any) -> None: ...


def _seconds(start_ns: int, end_ns: int) -> float:
    return (end_ns - start_ns) / 1e9


class Turns:
    """Steps of one rank. `mark` and `seconds` replace the wall clock, such as by CUDA events.

    The wall clock must wait for the device after every step. Events lie in the device's own queue:
    a turn waits once, and a free loop asks them by `query()`, if they have it, what is done.
    """

    def __init__(
        self,
        steps: int,
        records: StepSink | None = None,
        synchronize: Callable[[], None] = lambda: None,  # CPU work ends with its call
        mark: Callable[[], Any] = time.perf_counter_ns,
        seconds: Callable[[Any, Any], float] = _seconds,
    ) -> None:
        if not hasattr(steps, "__index__") or steps < 0:
            raise ValueError(f"steps is {steps!r}; give the number of steps, an int of at least 0")
        self._steps, self._records = steps, records
        self._synchronize, self._mark, self._seconds = synchronize, mark, seconds
        self._is_wall_clock = mark is time.perf_counter_ns
        self._index = 0  # steps finished
        self._turn = -1
        self._left = 0  # steps left in this turn
        self._start: Any = None  # mark of the running step
        self._notes: dict[str, Any] = {}
        self._pending: list[tuple[int, Any, Any, dict[str, Any]]] = []
        self._flushed_at = 0.0
        self._server = self._connect()

    def step(self) -> bool:
        """End the running step, wait for the next turn; False for ever once there is none."""
        if self._start is not None:
            self._finish_step()
        self._left = self._left or self._next_turn()
        if self._left:
            self._start = self._mark()
        return self._left > 0

    def note(self, **fields: Any) -> None:
        """Attach facts to the running step; a tensor is read (`.item()`) after it."""
        if not RESERVED.isdisjoint(fields):
            raise ValueError(f"a record has its own {min(RESERVED & fields.keys())}: rename yours")
        if not self._is_wall_clock:
            # A copy made within the step is there at its end: reading it waits for no later step.
            tensors = {k: v for k, v in fields.items() if hasattr(v, "to")}
            fields |= {k: v.to("cpu", non_blocking=True) for k, v in tensors.items()}
        self._notes.update(fields)

    def _finish_step(self) -> None:
        if self._is_wall_clock:
            self._synchronize()
        self._pending.append((self._index, self._start, self._mark(), self._notes))
        self._start, self._notes = None, {}
        self._index += 1
        self._left -= 1
        if self._left == 0:
            self._synchronize()
            times = self._flush(len(self._pending))  # before `done`, which means idle
            self._say("done " + " ".join(str(round(time_s * 1e9)) for time_s in times))
        elif self._server is None and time.monotonic() - self._flushed_at >= FLUSH_S:
            marks = [end for _, _, end, _ in self._pending]
            self._flush(sum(not hasattr(mark, "query") or mark.query() for mark in marks))

    def _flush(self, num_steps: int) -> list[float]:
        """Write so many of the pending steps, the oldest first; their times in seconds."""
        steps, self._pending = self._pending[:num_steps], self._pending[num_steps:]
        times = [self._seconds(start, end) for _, start, end, _ in steps]
        if self._records is not None:
            for (index, _, _, notes), time_s in zip(steps, times, strict=True):
                facts = {k: v.item() if hasattr(v, "item") else v for k, v in notes.items()}
                self._records.step(index, time_s, turn=self._turn, **facts)
        if steps:
            self._flushed_at = time.monotonic()
        return times

    def _next_turn(self) -> int:
        """Park until the server hands over the turn; its steps, 0 when there is none."""
        left = self._steps - self._index
        self._turn += 1
        if left == 0:
            self._say("bye")
            return 0
        if self._server is None:
            return 1 if self._is_wall_clock else left
        words = []
        with contextlib.suppress(OSError):
            words = self._lines.readline().split()
        if words[:1] == ["go"]:
            return min(int(words[1]), left)
        self._steps = self._index  # for ever: a step now would run in the other side's turn
        return 0

    def _connect(self) -> socket.socket | None:
        if not (path := os.environ.get(SOCKET_VARIABLE)):
            return None
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        self._lines = server.makefile("r", encoding="ascii")
        rank, world_size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
        server.sendall(f"hello {rank} {world_size} {os.getpid()}\n".encode())
        return server

    def _say(self, line: str) -> None:
        if self._server is not None:
            with contextlib.suppress(OSError):  # gone: it will not be heard either
                self._server.sendall(line.encode() + b"\n")
