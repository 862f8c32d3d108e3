import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workloads import records, turns
from workloads.records import read
from workloads.turns import FLUSH_S, RESERVED, Turns


class Steps:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def step(self, index: int, time_s: float, **fields: Any) -> None:
        self.all.append({"index": index, "time_s": time_s, **fields})

    def column(self, name: str) -> list[Any]:
        return [step.get(name) for step in self.all]


class Rank:
    """The server's end of one rank's connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lines = connection, connection.makefile("r")

    def hear(self) -> str:
        return self._lines.readline().rstrip("\n")

    def say(self, line: str) -> None:
        self._connection.sendall(f"{line}\n".encode())

    def turn(self, steps: int) -> list[int]:
        """Hand over a turn; its times in nanoseconds."""
        self.say(f"go {steps}")
        word, *times = self.hear().split()
        assert word == "done"
        return [int(time_ns) for time_ns in times]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A context in which `script(rank)` plays the turn server for one rank."""
    path = str(tmp_path / "turns")

    @contextmanager
    def serving(script: Callable[[Rank], None]) -> Iterator[None]:
        failures = []

        def play() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    script(Rank(connection))
                except AssertionError as error:
                    failures.append(error)

        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(10)
            monkeypatch.setenv(turns.SOCKET_VARIABLE, path)
            server = threading.Thread(target=play)
            server.start()
            yield
            server.join(10)
        assert not server.is_alive()
        assert not failures, failures

    return serving


@pytest.fixture(autouse=True)
def nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(turns.SOCKET_VARIABLE, raising=False)


def loop(run: Turns) -> int:
    count = 0
    while run.step():
        count += 1
    return count


# Free running


def test_a_free_loop_runs_its_steps() -> None:
    sink = Steps()
    assert loop(Turns(5, sink)) == 5
    assert sink.column("index") == sink.column("turn") == [0, 1, 2, 3, 4]
    assert all(0 <= time_s < 1 for time_s in sink.column("time_s"))


def test_no_steps_are_no_steps() -> None:
    assert loop(Turns(0, Steps())) == 0


def test_a_step_lasts_from_return_to_call() -> None:
    sink = Steps()
    run = Turns(2, sink)
    while run.step():
        time.sleep(0.02)
    assert all(time_s >= 0.02 for time_s in sink.column("time_s"))


def test_notes_belong_to_their_step() -> None:
    sink = Steps()
    run = Turns(3, sink)
    for index in range(3):
        assert run.step()
        if index != 1:
            run.note(tokens=8)
            run.note(loss=float(index))
    assert not run.step()
    assert sink.column("tokens") == [8, None, 8]
    assert sink.column("loss") == [0.0, None, 2.0]


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_what_a_record_has_already_cannot_be_noted(name: str) -> None:
    run = Turns(1, Steps())
    assert run.step()
    with pytest.raises(ValueError, match=f"a record has its own {name}: rename yours"):
        run.note(tokens=1, **{name: 5})


@pytest.mark.parametrize("steps", [-1, "40", 4.0, None])
def test_a_number_of_steps_is_a_number(steps: Any) -> None:
    with pytest.raises(ValueError, match=f"steps is {steps!r}; give the number of steps"):
        Turns(steps)


def test_a_free_loop_that_is_over_stays_over() -> None:
    run = Turns(2)
    assert loop(run) == 2
    assert loop(run) == 0


# Devices


class Device:
    """Something that works behind the host's back; its clock shows milliseconds."""

    def __init__(self) -> None:
        self.now_ms = 0  # when what was launched so far will be done
        self.done_ms = 0
        self.num_synchronized = 0

    def synchronize(self) -> None:
        self.num_synchronized += 1
        self.done_ms = self.now_ms

    def mark(self) -> "Event":
        return Event(self)


class Event:
    """A mark in the device's queue."""

    def __init__(self, device: Device) -> None:
        self._device, self._at_ms = device, device.now_ms

    def query(self) -> bool:
        return self._device.done_ms >= self._at_ms

    def since(self, start: "Event") -> float:
        assert self.query()
        return (self._at_ms - start._at_ms) / 1e3


def seconds(start: Event, end: Event) -> float:
    return end.since(start)


class Loss:
    """A tensor on a device: only its copy is read without waiting for all that was launched."""

    def __init__(self, value: float) -> None:
        self._value = value

    def to(self, device: str, *, non_blocking: bool) -> Any:
        assert (device, non_blocking) == ("cpu", True)
        return SimpleNamespace(item=lambda: self._value)


def test_events_are_read_once_a_turn(serve: Any) -> None:
    device, sink = Device(), Steps()

    def script(rank: Rank) -> None:
        rank.hear()
        for _ in range(2):
            assert rank.turn(3) == [7_000_000] * 3
        rank.say("stop")

    with serve(script):
        run = Turns(9, sink, device.synchronize, device.mark, seconds)
        while run.step():
            device.now_ms += 7
            run.note(loss=Loss(device.now_ms))
            assert device.num_synchronized == len(sink.all) // 3
    assert sink.column("time_s") == [0.007] * 6
    assert sink.column("loss") == [7.0, 14.0, 21.0, 28.0, 35.0, 42.0]


def test_a_free_loop_writes_what_its_device_has_done_and_never_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs two steps ahead of its device, whose steps take a tenth of a second each."""
    device, sink, num_steps = Device(), Steps(), 100
    monkeypatch.setattr(time, "monotonic", lambda: device.now_ms / 1e3)
    run = Turns(num_steps, sink, device.synchronize, device.mark, seconds)
    written = []
    while run.step():
        written.append(len(sink.all))
        assert device.num_synchronized == 0
        device.now_ms += 100
        device.done_ms = device.now_ms - 200
        run.note(loss=Loss(device.now_ms))
    for index in range(20, num_steps):
        assert index - written[index] <= 10 * FLUSH_S + 2
    assert len(set(written)) < 12, "it writes once a second, not once a step"
    assert sink.column("index") == list(range(num_steps))
    assert sink.column("time_s") == [0.1] * num_steps
    assert sink.column("loss") == [100.0 * (1 + index) for index in range(num_steps)]
    assert device.num_synchronized == 1


def test_marks_that_cannot_be_asked_are_past_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sink = [5.0], Steps()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = Turns(9, sink, mark=lambda: now[0], seconds=lambda start, end: end - start)
    for _ in range(4):
        run.step()
        now[0] += 2.0
    assert sink.column("time_s") == [2.0] * 3


def test_the_wall_clock_waits_for_the_device_after_every_step(serve: Any) -> None:
    device, sink = Device(), Steps()

    def script(rank: Rank) -> None:
        rank.hear()
        assert len(rank.turn(3)) == 3
        rank.say("stop")

    with serve(script):
        run = Turns(9, sink, device.synchronize)
        for finished in range(3):
            assert run.step()
            assert device.num_synchronized == finished
        assert not run.step()


# Lock-step


def test_turns_are_taken_when_the_server_says_so(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    sink, reported = Steps(), []

    def script(rank: Rank) -> None:
        assert rank.hear() == f"hello 1 2 {os.getpid()}"
        reported.extend([rank.turn(1), rank.turn(3)])
        rank.say("stop")

    with serve(script):
        assert loop(Turns(100, sink)) == 4

    assert [len(times) for times in reported] == [1, 3]
    assert sink.column("turn") == [0, 1, 1, 1]
    recorded_ns = [round(time_s * 1e9) for time_s in sink.column("time_s")]
    assert recorded_ns == reported[0] + reported[1]


def test_waiting_is_not_timed(serve: Any) -> None:
    def script(rank: Rank) -> None:
        rank.hear()
        for _ in range(2):
            time.sleep(0.3)
            assert rank.turn(1)[0] < 0.2e9
        rank.say("stop")

    with serve(script):
        assert loop(Turns(100)) == 2


def test_a_rank_that_has_run_its_steps_says_bye(serve: Any) -> None:
    def script(rank: Rank) -> None:
        rank.hear()
        assert len(rank.turn(2)) == 2
        assert len(rank.turn(5)) == 1  # no more than it has left
        assert rank.hear() == "bye"

    with serve(script):
        assert loop(Turns(3)) == 3


def test_done_means_that_the_records_are_written(serve: Any) -> None:
    class SlowSteps(Steps):
        def step(self, index: int, time_s: float, **fields: Any) -> None:
            time.sleep(0.1)
            super().step(index, time_s, **fields)

    sink = SlowSteps()

    def script(rank: Rank) -> None:
        rank.hear()
        rank.turn(2)
        assert len(sink.all) == 2
        rank.say("stop")

    with serve(script):
        loop(Turns(9, sink))


@pytest.mark.parametrize("last_words", ["stop", None, "go"])
def test_after_the_last_turn_no_step_is_handed_out_ever(serve: Any, last_words: str | None) -> None:
    """A nested loop asks again after the False that ended its inner one."""

    def script(rank: Rank) -> None:
        rank.hear()
        for _ in range(2):
            rank.turn(1)
        if last_words == "go":
            rank.turn(99)
        elif last_words:
            rank.say(last_words)

    sink = Steps()
    with serve(script):
        run = Turns(6, sink)
        num_steps = sum(loop(run) for _epoch in range(3))
    assert num_steps == len(sink.all) == (6 if last_words == "go" else 2)
    assert not run.step()


def test_a_server_that_dies_within_a_turn_hands_out_no_more(serve: Any) -> None:
    def script(rank: Rank) -> None:
        rank.hear()
        rank.say("go 3")

    with serve(script):
        run = Turns(9)
        assert run.step()
        time.sleep(0.2)
        assert loop(run) == 2
        assert not run.step()


# Vendoring

TRAINER = """
from paceline_records import Records
from paceline_turns import Turns
with Records() as records:
    turns = Turns(3, records)
    while turns.step():
        turns.note(tokens=4)
"""


def test_both_modules_work_alone(tmp_path: Path) -> None:
    for module in (turns, records):
        source = Path(module.__file__)
        assert len(source.read_text().splitlines()) < 150
        name = f"paceline_{source.name}"
        (tmp_path / name).write_bytes(source.read_bytes())
    (tmp_path / "train.py").write_text(TRAINER)
    environment = {records.DIRECTORY_VARIABLE: str(tmp_path / "out"), "RANK": "1"}
    command = [sys.executable, "-S", "train.py"]  # -S: nothing but the standard library
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=60)

    kinds = [record["kind"] for record in read(tmp_path / "out" / "rank-1.jsonl")]
    assert kinds == ["env", "step", "step", "step", "memory", "summary"]
