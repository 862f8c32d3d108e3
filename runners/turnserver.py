"""Hands the turns of a lock-step pair to its two sides; a process of its own, one per node.

    python -m runners.turnserver  < one JSON line (Order), then the pipe stays open
                                  > one JSON line (Outcome)

Its own process, because a worker's other threads would delay the second rank's `go` by a slice of
Python's lock, and a late rank is a slow step. workloads/turns.py documents the protocol.

Each round is one turn of either side, in an order that is random but balanced: a step right after
a switch is slower, so unbalanced orders would bias the pair. The pair goes on until the running
standard error of its effect is small enough and enough turns were taken, until a side has run all
its steps, or until the time is up. A side that dies or falls silent ends it; the other is told to
stop at the end of its turn, where all its ranks are parked.
"""

import contextlib
import json
import math
import os
import random
import select
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path

import numpy as np

from runners.account import Account
from service.domain import Role
from service.stats.summary import median_standard_error

_BLOCK_ROUNDS = 10  # orders are balanced within every block
_SHORTEST_TURN_S = 1e-3
_SHORTEST_STEP_S = 1e-7  # what takes less, such as nothing between two device events, is not timed
_CHECK_ROUNDS = 20  # how often the running standard error is looked at
_SAY_S = 1.0  # a line waits so long for room in the socket's buffer, which holds hundreds
_LONGEST_LINE = 2**20  # bytes; the times of the longest turn take a fifth


@dataclass(frozen=True, kw_only=True)
class Order:
    """How to run the turns. `sockets` are paths, one per side."""

    sockets: dict[str, str]
    world_size: int
    num_warmup_turns: int
    min_turns: int
    max_standard_error: float
    time_limit_s: float  # until the last turn, from the start
    start_limit_s: float  # until every rank has said hello
    stall_s: float  # a turn may take so long
    seed: int
    account: str = ""  # the user who may connect


class TurnsEnded(StrEnum):
    """How the turns ended."""

    PRECISE = "precise"  # the effect is known well enough
    OUT_OF_STEPS = "out_of_steps"
    OUT_OF_TIME = "out_of_time"
    DIED = "died"
    STALLED = "stalled"
    NO_SHOW = "no_show"  # a side did not reach its first step
    RELEASED = "released"  # the worker let go of the server
    UNSERVED = "unserved"  # the server was killed

    @property
    def is_orderly(self) -> bool:
        """Whether both sides were told to stop where all their ranks were parked."""
        return self in (TurnsEnded.PRECISE, TurnsEnded.OUT_OF_STEPS, TurnsEnded.OUT_OF_TIME)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the turns ended; `side` and `rank` name who ended them.

    Whether the pair is valid, the ends and records of its trials say: a rank that leaves early but
    well has `died` here.
    """

    ended: TurnsEnded
    side: str | None = None
    rank: int | None = None
    num_turns: int = 0  # per side, warm-up left out
    steps_per_turn: int = 1
    standard_error: float | None = None


class _SideEnded(Exception):
    """A side left, died or fell silent."""

    def __init__(self, ended: TurnsEnded, side: Role, rank: int | None = None) -> None:
        super().__init__(ended)
        self.ended, self.side, self.rank = ended, side, rank


class _Lifeline(Exception):
    """The worker closed the pipe."""


class _Line:
    """The connection to one rank: whole lines, each awaited until a deadline."""

    def __init__(self, connection: socket.socket, lifeline: int) -> None:
        self.connection = connection
        self.connection.settimeout(_SAY_S)
        self._lifeline = lifeline
        self._received = b""

    def say(self, text: str) -> None:
        """Send a line. Raises TimeoutError where the rank reads none, and has not for long.

        Raises OSError where the rank is gone; what it said can still be heard.
        """
        self.connection.sendall(text.encode() + b"\n")

    def hear(self, deadline: float) -> list[str]:
        """Words of the next line; none where the rank is gone. Raises TimeoutError."""
        while b"\n" not in self._received:
            _await(self.connection, self._lifeline, deadline)
            try:
                part = self.connection.recv(65536)
            except OSError:
                part = b""
            self._received += part
            if not part or len(self._received) > _LONGEST_LINE:
                return []
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace").split()


class _Side:
    """The ranks of one side."""

    def __init__(self, role: Role, path: str, account: Account, lifeline: int) -> None:
        self.role = role
        self.path = path
        self._lifeline = lifeline
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{path}.new")
        self._listener.listen(1024)
        account.give(Path(f"{path}.new"))
        Path(f"{path}.new").rename(path)  # who finds it there can connect
        self._ranks: dict[int, _Line] = {}

    def await_hello(self, world_size: int, deadline: float) -> None:
        """Wait until every rank has said hello."""
        while len(self._ranks) < world_size:
            try:
                _await(self._listener, self._lifeline, deadline)
                line = _Line(self._listener.accept()[0], self._lifeline)
                hello = line.hear(deadline)
                if len(hello) > 1 and hello[0] == "hello" and hello[1].isdecimal():
                    self._ranks[_within(hello[1], 0, world_size)] = line
            except TimeoutError as error:
                raise _SideEnded(TurnsEnded.NO_SHOW, self.role) from error
            except ValueError as error:  # a rank that the case does not have
                raise _SideEnded(TurnsEnded.DIED, self.role) from error

    def turn(self, num_steps: int, stall_s: float) -> float:
        """One turn of all ranks; its seconds: per step the maximum over ranks, summed."""
        deadline = time.monotonic() + stall_s
        for rank, line in self._ranks.items():
            try:
                line.say(f"go {num_steps}")
            except TimeoutError as error:
                raise _SideEnded(TurnsEnded.STALLED, self.role, rank) from error
            except OSError:
                continue  # a rank that is gone may have said bye before
        times = [self._times(rank, num_steps, deadline) for rank in self._ranks]
        # A rank with fewer steps left has the shorter turn, and says bye in the next.
        return math.fsum(max(step) for step in zip(*times, strict=False))

    def stop(self) -> None:
        """Tell parked ranks that there are no more turns, and let go of them."""
        for line in self._ranks.values():
            with contextlib.suppress(OSError):
                line.say("stop")
            line.connection.close()
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)

    def _times(self, rank: int, num_steps: int, deadline: float) -> list[float]:
        """Step times in seconds of a rank's turn."""
        try:
            words = self._ranks[rank].hear(deadline)
        except TimeoutError as error:
            raise _SideEnded(TurnsEnded.STALLED, self.role, rank) from error
        if words == ["bye"]:
            raise _SideEnded(TurnsEnded.OUT_OF_STEPS, self.role, rank)
        try:
            done, *times = words
            if done != "done" or not 0 < len(times) <= num_steps:
                raise ValueError(f"{done!r} and {len(times)} times are not in the protocol")
            return [_within(time_ns, 1, 2**63) / 1e9 for time_ns in times]
        except ValueError as error:  # silence at the end of its connection, or nonsense
            raise _SideEnded(TurnsEnded.DIED, self.role, rank) from error


def _within(word: str, low: int, end: int) -> int:
    """The number that a rank said. Raises ValueError where it is none of low, ..., end - 1."""
    number = int(word)
    if not low <= number < end:
        raise ValueError(f"{number} is not within {low} and {end}")
    return number


def _await(connection: socket.socket, lifeline: int, deadline: float) -> None:
    """Wait until the connection can be read. Raises TimeoutError, or _Lifeline at its end."""
    left_s = max(0.0, deadline - time.monotonic())
    ready, _, _ = select.select([connection.fileno(), lifeline], [], [], left_s)
    if lifeline in ready and not os.read(lifeline, 4096):
        raise _Lifeline
    if connection.fileno() not in ready:
        raise TimeoutError


def orders(rng: random.Random) -> Iterator[tuple[Role, Role]]:
    """Endless orders of the two sides, random and balanced within every block."""
    forth, back = (Role.BASELINE, Role.CANDIDATE), (Role.CANDIDATE, Role.BASELINE)
    while True:
        block = [forth, back] * (_BLOCK_ROUNDS // 2)
        rng.shuffle(block)
        yield from block


def serve(order: Order, *, lifeline: int) -> Outcome:
    """Run the turns of one pair to their end."""
    account = Account(name=order.account)
    sides = {role: _Side(role, order.sockets[role], account, lifeline) for role in Role}
    turns: dict[Role, list[float]] = {role: [] for role in Role}
    progress = _Progress()
    try:
        ended, culprit, rank = _take_turns(order, sides, turns, progress), None, None
    except _SideEnded as error:
        ended, culprit, rank = error.ended, error.side, error.rank
    except _Lifeline:
        ended, culprit, rank = TurnsEnded.RELEASED, None, None
    finally:
        for side in sides.values():
            side.stop()
    return Outcome(
        ended=ended,
        side=culprit,
        rank=rank,
        num_turns=min(map(len, turns.values())),
        steps_per_turn=progress.steps_per_turn,
        standard_error=progress.standard_error,
    )


@dataclass
class _Progress:
    """What is known so far of the pair."""

    steps_per_turn: int = 1
    standard_error: float | None = None


def _take_turns(
    order: Order, sides: dict[Role, _Side], turns: dict[Role, list[float]], progress: _Progress
) -> TurnsEnded:
    start = time.monotonic()
    for side in sides.values():
        side.await_hello(order.world_size, start + order.start_limit_s)
    deadline = start + order.time_limit_s
    rounds = orders(random.Random(order.seed))
    warmup: list[float] = []
    for pair in islice(rounds, order.num_warmup_turns):
        if time.monotonic() > deadline:
            return TurnsEnded.OUT_OF_TIME
        warmup += [sides[role].turn(1, order.stall_s) for role in pair]
    if warmup:
        typical_s = sorted(warmup)[len(warmup) // 2]
        progress.steps_per_turn = math.ceil(_SHORTEST_TURN_S / max(typical_s, _SHORTEST_STEP_S))
    for num_rounds, pair in enumerate(rounds):
        if num_rounds >= order.min_turns and num_rounds % _CHECK_ROUNDS == 0:
            progress.standard_error = _standard_error(turns)
            if progress.standard_error <= order.max_standard_error:
                return TurnsEnded.PRECISE
        if time.monotonic() > deadline:
            progress.standard_error = _standard_error(turns)
            return TurnsEnded.OUT_OF_TIME
        taken = {role: sides[role].turn(progress.steps_per_turn, order.stall_s) for role in pair}
        for role, time_s in taken.items():
            turns[role].append(time_s)
    raise AssertionError("orders() is endless")


def _standard_error(turns: dict[Role, list[float]]) -> float:
    return median_standard_error(np.log(turns[Role.CANDIDATE]) - np.log(turns[Role.BASELINE]))


def main() -> None:
    """Read the order, serve the pair, print the outcome."""
    order = Order(**json.loads(sys.stdin.readline()))
    print(json.dumps(asdict(serve(order, lifeline=sys.stdin.fileno()))), flush=True)


if __name__ == "__main__":
    main()
