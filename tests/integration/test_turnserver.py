"""The turn server with real clients: two sides of two ranks, each rank a process of its own."""

import contextlib
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from runners.turnserver import orders
from service.domain import Role
from tests.integration.turntakers import Pair


@pytest.fixture
def make_pair() -> Iterator[Any]:
    made: list[Pair] = []
    with tempfile.TemporaryDirectory(prefix="turns-") as folder:  # a socket's path must be short

        def make(**values: Any) -> Pair:
            made.append(Pair(folder, **values))
            return made[-1]

        yield make
        for pair in made:
            pair.close()


def rounds(pair: Pair) -> list[tuple[Role, Role]]:
    """Which side had the first turn of each round, by the clock, warm-up included."""
    starts = []
    for role in Role:
        (first_rank, _) = pair.ended_alone(role)
        turns = [turn for turn, _ in first_rank["steps"]]
        begun = dict(zip(reversed(turns), reversed(first_rank["starts"]), strict=True))
        starts += [(at, role) for at in begun.values()]
    order = [role for _, role in sorted(starts, key=lambda start: start[0])]
    return list(zip(order[::2], order[1::2], strict=True))


def test_a_pair_goes_on_until_it_is_precise(make_pair: Any):
    pair = make_pair()
    for role in Role:
        pair.start(role)
    outcome = pair.outcome()
    assert outcome.ended == "precise"
    assert (outcome.side, outcome.rank) == (None, None)
    assert outcome.num_turns == 20
    assert outcome.standard_error is not None
    assert 0 <= outcome.standard_error < 1
    taken = rounds(pair)
    assert len(taken) == 10 + 20, "warm-up turns are taken, but not counted"
    for first, second in taken:
        assert {first, second} == set(Role), "each round is one turn of either side"
    for start in range(0, 30, 10):
        firsts = [first for first, _ in taken[start : start + 10]]
        assert firsts.count(Role.BASELINE) == 5
    assert len({tuple(taken[start : start + 10]) for start in range(0, 30, 10)}) > 1


def test_orders_are_random_and_balanced():
    def taken(seed: int) -> list[tuple[Role, Role]]:
        return list(islice(orders(random.Random(seed)), 100))

    assert taken(1) == taken(1) != taken(2)
    for start in range(0, 100, 10):
        assert taken(1)[start : start + 10].count((Role.BASELINE, Role.CANDIDATE)) == 5


def test_a_pair_that_stays_noisy_runs_out_of_time(make_pair: Any):
    pair = make_pair(max_standard_error=0.0, time_limit_s=8.0)
    for role in Role:
        pair.start(role)
    outcome = pair.outcome()
    assert outcome.ended == "out_of_time"
    assert outcome.num_turns > 5
    assert outcome.standard_error is not None
    for role in Role:
        assert len(pair.ended_alone(role)[0]["steps"]) == outcome.num_turns + 10


@pytest.mark.parametrize("step_s", [0.002, 0.05])
def test_a_side_that_has_run_all_its_steps_ends_the_pair(make_pair: Any, step_s: float):
    """The slow other side gives the first all the time to leave before its next turn."""
    pair = make_pair(num_warmup_turns=2, max_standard_error=0.0)
    pair.start(Role.BASELINE, steps=15)
    pair.start(Role.CANDIDATE, step_s=step_s)
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side) == ("out_of_steps", "baseline")
    assert outcome.num_turns in (12, 13)
    assert len(pair.ended_alone(Role.BASELINE)[1]["steps"]) == 15
    assert len(pair.ended_alone(Role.CANDIDATE)[1]["steps"]) in (15, 16)


def test_the_ranks_of_a_side_may_disagree_on_the_number_of_steps(make_pair: Any):
    pair = make_pair(num_warmup_turns=2, max_standard_error=0.0)
    pair.start(Role.BASELINE, {"steps": 15}, {"steps": 16})
    pair.start(Role.CANDIDATE)
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side, outcome.rank) == ("out_of_steps", "baseline", 0)
    pair.ended_alone(Role.CANDIDATE)


def other(role: Role) -> Role:
    return Role.CANDIDATE if role is Role.BASELINE else Role.BASELINE


@pytest.mark.parametrize("die_at", [0, 5, 25])
@pytest.mark.parametrize("culprit", list(Role))
def test_a_side_that_dies_frees_the_other(make_pair: Any, culprit: Role, die_at: int):
    pair = make_pair(max_standard_error=0.0)
    pair.start(culprit, {}, {"die_at": die_at})
    pair.start(other(culprit))
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side, outcome.rank) == ("died", culprit, 1)
    first, second = pair.ended_alone(other(culprit))
    assert len(first["steps"]) == len(second["steps"]) in (die_at, die_at + 1)


def test_a_side_that_stalls_frees_the_other(make_pair: Any):
    pair = make_pair(stall_s=0.4)
    pair.start(Role.CANDIDATE, {"hang_at": 12}, {})
    pair.start(Role.BASELINE)
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side, outcome.rank) == ("stalled", "candidate", 0)
    assert outcome.num_turns in (1, 2)
    pair.ended_alone(Role.BASELINE)


@pytest.mark.parametrize("ranks", [[], [{}], [{}, {"late_s": 60}]])
def test_a_side_that_never_comes_frees_the_other(make_pair: Any, ranks: list[dict[str, Any]]):
    pair = make_pair(start_limit_s=8.0)
    pair.start(Role.BASELINE)
    if ranks:
        pair.start(Role.CANDIDATE, *ranks)
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side) == ("no_show", "candidate")
    assert outcome.num_turns == 0
    assert [rank["steps"] for rank in pair.ended_alone(Role.BASELINE)] == [[], []]


@pytest.mark.parametrize("after", ["start", "turns"])
def test_a_worker_that_lets_go_ends_the_pair(make_pair: Any, after: str):
    pair = make_pair(max_standard_error=0.0)
    pair.start(Role.BASELINE)
    if after == "turns":
        pair.start(Role.CANDIDATE)
        pair.await_meeting(Role.CANDIDATE)
    pair.await_meeting(Role.BASELINE)
    pair.let_go()
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side) == ("released", None)
    if after == "start":
        assert [rank["steps"] for rank in pair.ended_alone(Role.BASELINE)] == [[], []]


def test_short_steps_get_long_turns(make_pair: Any):
    pair = make_pair(num_warmup_turns=20)
    for role in Role:
        pair.start(role, steps=10**6, step_s=0)
    outcome = pair.outcome()
    assert outcome.ended == "precise"
    assert outcome.steps_per_turn > 1
    for role in Role:
        (rank, _) = pair.ended_alone(role)
        turns = [turn for turn, _ in rank["steps"]]
        assert turns[:20] == list(range(20)), "a warm-up turn is one step"
        assert turns.count(25) == outcome.steps_per_turn
        assert len(turns) == 20 + outcome.num_turns * outcome.steps_per_turn


def test_long_steps_get_turns_of_one(make_pair: Any):
    pair = make_pair()
    for role in Role:
        pair.start(role, step_s=0.002)
    assert pair.outcome().steps_per_turn == 1


class Speaker:
    """A rank that says what it is told to."""

    def __init__(self, path: str, rank: int | str = 0) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(path)
        self.lines = self.connection.makefile("r")
        self.say(f"hello {rank} 1 4711\n")

    def say(self, text: str | bytes) -> None:
        self.connection.sendall(text if isinstance(text, bytes) else text.encode())

    def hear(self) -> str:
        return self.lines.readline().strip()


def test_a_bye_that_comes_together_with_done_is_no_death(make_pair: Any):
    pair = make_pair(world_size=1, num_warmup_turns=0)
    baseline, candidate = (Speaker(pair.sockets[role]) for role in Role)
    for number in range(3):
        for speaker in (baseline, candidate):  # in whatever order the turns come
            is_last = number == 2 and speaker is baseline
            speaker.say(b"done 2000000\nbye\n" if is_last else b"done 2000000\n")
    baseline.connection.close()
    baseline.lines.close()
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side) == ("out_of_steps", "baseline")
    assert outcome.num_turns == 3


@pytest.mark.parametrize(
    "nonsense",
    [
        "\n",
        "dona 5\n",
        "done five\n",
        b"\xff\xfe\n",
        "bye bye\n",
        "stop\n",
        "done\n",
        "done 0\n",
        "done -2000000\n",
        "done 2000000 2000000\n",
        f"done 1{'0' * 400}\n",
        f"done {'9' * 5000}\n",
        "done" + " 1" * 2**20,
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_a_rank_that_talks_nonsense_is_as_good_as_dead(make_pair: Any, nonsense: str | bytes):
    pair = make_pair(world_size=1, num_warmup_turns=0)
    baseline, candidate = (Speaker(pair.sockets[role]) for role in Role)
    baseline.say("done 2000000\n")
    with contextlib.suppress(BrokenPipeError):  # of a line without end not all is heard
        candidate.say(nonsense)
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side, outcome.rank) == ("died", "candidate", 0)
    heard = [baseline.hear(), baseline.hear()]
    assert "stop" in heard


@pytest.mark.parametrize("rank", ["1", "9" * 5000])
def test_a_rank_that_the_case_does_not_have_ends_the_pair(make_pair: Any, rank: str):
    pair = make_pair(world_size=1)
    speakers = [Speaker(pair.sockets[Role.BASELINE]), Speaker(pair.sockets[Role.CANDIDATE], rank)]
    outcome = pair.outcome()
    assert (outcome.ended, outcome.side) == ("died", "candidate")
    assert speakers[0].hear() == "stop"


def test_a_rank_that_hears_nothing_has_stalled(make_pair: Any):
    """Its answers lie ready, so turn after turn is handed to it until its socket is full."""
    pair = make_pair(world_size=1, min_turns=10**6)
    speakers = [Speaker(pair.sockets[role]) for role in Role]

    def answer(speaker: Speaker) -> None:
        with contextlib.suppress(OSError):
            while True:
                speaker.say("done 2000000\n" * 1000)

    for speaker in speakers:
        threading.Thread(target=answer, args=[speaker], daemon=True).start()
    assert pair.outcome().ended == "stalled"


def test_warm_up_turns_are_within_the_time_limit(make_pair: Any):
    pair = make_pair(num_warmup_turns=10**6, time_limit_s=8.0)
    for role in Role:
        pair.start(role)
    outcome = pair.outcome()
    assert (outcome.ended, outcome.num_turns, outcome.standard_error) == ("out_of_time", 0, None)
    for role in Role:
        assert pair.ended_alone(role)[0]["steps"]


def test_a_stranger_at_the_door_is_turned_away(make_pair: Any):
    pair = make_pair(world_size=1, num_warmup_turns=0, start_limit_s=5.0)
    for greeting in (b"GET / HTTP/1.1\n", b"hello\n", b"hello world\n", b"\n", b""):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(pair.sockets[Role.BASELINE])
        stranger.sendall(greeting)
        stranger.close()
    speakers = [Speaker(pair.sockets[role]) for role in Role]
    for speaker in speakers:
        speaker.say("done 2000000\nbye\n")
    assert pair.outcome().ended == "out_of_steps"


def test_the_sockets_are_taken_away(make_pair: Any):
    pair = make_pair(start_limit_s=0.2)
    pair.outcome()
    assert not any(map(os.path.exists, pair.sockets.values()))
