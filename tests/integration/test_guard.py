"""The guard with real processes: however a trial ends, nothing of it is alive afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from runners.guard import Order, Outcome, leftovers
from runners.guarded import Guarded

ROOT = Path(__file__).parents[2]

# A trial that behaves as badly as its argument says. Its second argument marks all it starts.
PROGRAM = """
import os, signal, sys, time

def ignore():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

def sleep():
    time.sleep(600)

def child(action):
    if os.fork() == 0:
        action()
        os._exit(0)

def own_session():
    os.setsid()
    ignore()
    sleep()

def daemon():
    os.setsid()
    child(own_session)

def naked():
    # An environment without the tag.
    os.setsid()
    child(lambda: os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)",
                                             sys.argv[2]], {}))

def breeder():
    os.setsid()
    while True:
        child(lambda: time.sleep(0.3))
        time.sleep(0.01)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass

def stopped():
    os.setsid()
    os.kill(os.getpid(), signal.SIGSTOP)

modes = sys.argv[1].split("+")
for mode in modes:
    if mode in ("own_session", "daemon", "naked", "breeder", "stopped"):
        child(globals()[mode])
    if mode == "ignore":
        ignore()
print("started", flush=True)
time.sleep(0.2)
if "record" in modes:
    open(os.path.join(sys.argv[3], "rank-0.jsonl"), "w").write('{"kind": "env"}')
if "compile" in modes:
    time.sleep(2.5)
if "step" in modes:
    open(os.path.join(sys.argv[3], "rank-0.jsonl"), "a").write('{"v":1,"kind":"step"}')
if "chatter" in modes:
    for number in range(600):
        open(os.path.join(sys.argv[3], "rank-0.jsonl"), "a").write("{}")
        time.sleep(0.2)
if "sleep" in modes:
    sleep()
sys.exit(3 if "exit_3" in modes else 0)
"""


class Trial:
    """A trial's files and its mark."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"trial-{uuid4().hex}"
        self.folder = folder
        self.log = folder / "log.txt"
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM)
        (folder / "records").mkdir()

    def order(self, mode: str, **values: Any) -> Order:
        records = str(self.folder / "records")
        defaults: dict[str, Any] = {
            "argv": [sys.executable, str(self.program), mode, self.mark, records],
            "environment": {"PATH": os.environ["PATH"], "PACELINE_TRIAL_ID": self.mark},
            "working_dir": str(self.folder),
            "log": str(self.log),
            "tag": f"PACELINE_TRIAL_ID={self.mark}",
            "deadline_s": 60.0,
            "watch": records,
            "start_s": 20.0,
            "stall_s": 0.0,
            "kill_grace_s": 0.3,
        }
        return Order(**{**defaults, **values})

    def start(self, mode: str, **values: Any) -> Guarded:
        return Guarded(self.order(mode, **values))

    def await_start(self) -> None:
        wait_until(lambda: self.log.exists() and b"started" in self.log.read_bytes())

    def alive(self) -> list[int]:
        """Living processes of the trial, by mark in their arguments or tag in their environment."""
        found = set(leftovers(f"PACELINE_TRIAL_ID={self.mark}".encode()))
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    arguments = (folder / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if self.mark.encode() in arguments:
                    found.add(int(folder.name))
        return sorted(found)


def wait_until(condition: Any, limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def wait(guarded: Guarded, limit_s: float = 20.0) -> Outcome:
    wait_until(lambda: guarded.poll() is not None, limit_s)
    outcome = guarded.poll()
    assert outcome is not None
    return outcome


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(tmp_path)
    yield made
    left = made.alive()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.mark.parametrize(("mode", "code"), [("exit_0", 0), ("exit_3", 3)])
def test_a_trial_that_ends_by_itself(trial: Trial, mode: str, code: int):
    outcome = wait(trial.start(mode))
    assert (outcome.ended, outcome.exit_code, outcome.num_survivors) == ("exited", code, 0)
    assert 0.1 < outcome.wall_s < 20
    assert trial.log.read_text() == "started\n"


@pytest.mark.parametrize(
    ("mode", "least"),
    [
        ("own_session", 1),
        ("daemon", 1),
        ("naked", 1),
        ("stopped", 1),
        ("own_session+daemon+naked+stopped", 4),
        ("breeder", 2),
    ],
)
def test_nothing_outlives_a_trial_that_exits(trial: Trial, mode: str, least: int):
    outcome = wait(trial.start(f"{mode}+exit_3"))
    assert trial.alive() == []
    assert (outcome.ended, outcome.exit_code) == ("exited", 3)
    assert outcome.num_survivors >= least


@pytest.mark.parametrize("grace_s", [0.0, 0.3])
def test_nothing_outlives_the_deadline(trial: Trial, grace_s: float):
    mode = "ignore+own_session+daemon+naked+breeder+sleep"
    outcome = wait(trial.start(mode, deadline_s=0.5, kill_grace_s=grace_s))
    assert trial.alive() == []
    assert (outcome.ended, outcome.exit_code) == ("deadline", -signal.SIGKILL)


def test_a_trial_may_end_in_peace_after_sigterm(trial: Trial):
    outcome = wait(trial.start("sleep", deadline_s=0.5))
    assert (outcome.ended, outcome.exit_code) == ("deadline", -signal.SIGTERM)


def test_nothing_outlives_a_stall(trial: Trial):
    outcome = wait(trial.start("record+step+ignore+daemon+sleep", stall_s=0.5))
    assert trial.alive() == []
    assert outcome.ended == "stalled"


def test_a_slow_start_is_no_stall(trial: Trial):
    outcome = wait(trial.start("record+compile+step", stall_s=0.5))
    assert outcome.ended == "exited"


def test_a_start_without_end_is_a_stall(trial: Trial):
    outcome = wait(trial.start("record+sleep", stall_s=0.5, start_s=1.2))
    assert outcome.ended == "stalled"


def test_a_trial_that_records_is_not_stalled(trial: Trial):
    outcome = wait(trial.start("chatter", stall_s=0.9, deadline_s=2.5))
    assert outcome.ended == "deadline"


def test_a_trial_that_has_not_recorded_yet_is_not_stalled(trial: Trial):
    outcome = wait(trial.start("sleep", stall_s=0.1, deadline_s=1.5))
    assert outcome.ended == "deadline"


@pytest.mark.parametrize("what", ["pipe", "folder", "link", "other"])
def test_nothing_in_the_folder_of_records_keeps_a_stall_from_being_seen(trial: Trial, what: str):
    records = trial.folder / "records"
    strange = records / "rank-00.jsonl"
    make = {
        "pipe": lambda: os.mkfifo(strange),
        "folder": strange.mkdir,
        "link": lambda: strange.symlink_to("/dev/zero"),
        "other": (records / "tensorboard").mkdir,
    }
    make[what]()
    outcome = wait(trial.start("record+step+sleep", stall_s=0.5))
    assert outcome.ended == "stalled"


def test_nothing_outlives_a_closed_lifeline(trial: Trial):
    guarded = trial.start("ignore+own_session+daemon+naked+sleep")
    trial.await_start()
    outcome = guarded.cancel()
    assert trial.alive() == []
    assert (outcome.ended, outcome.exit_code) == ("released", -signal.SIGKILL)
    assert guarded.cancel() == outcome, "to let go twice is harmless"


def test_nothing_outlives_a_killed_worker(trial: Trial):
    order = trial.order("ignore+own_session+daemon+naked+sleep")
    worker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import time; from runners.guard import Order; from runners.guarded import Guarded;"
            f"held = Guarded({order!r}); time.sleep(600)",
        ],
        cwd=ROOT,
    )
    trial.await_start()
    assert len(trial.alive()) >= 4
    worker.kill()
    worker.wait()
    wait_until(lambda: trial.alive() == [])


def test_the_worker_cleans_up_after_a_killed_guard(trial: Trial):
    guarded = trial.start("ignore+own_session+daemon+sleep")
    trial.await_start()
    guarded._guard._process.kill()
    outcome = wait(guarded)
    assert trial.alive() == []
    assert outcome.ended == "unguarded"
    assert outcome.num_survivors >= 3
    assert "guard ended with -9" in outcome.detail
    assert outcome.cpu_time_s is None


# Burns 0.4 s of CPU, and as much in an orphan with a session of its own, whose end it awaits.
BURNER = """
import os, time
ours, theirs = os.pipe()
def burn():
    while time.process_time() < 0.4: pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        burn()
    os._exit(0)
os.close(theirs)
os.wait()
burn()
os.read(ours, 1)
"""


def test_the_cpu_time_of_a_trial_is_that_of_its_orphans_too(trial: Trial):
    outcome = wait(trial.start("", argv=[sys.executable, "-c", BURNER]))
    assert outcome.exit_code == 0
    assert outcome.cpu_time_s is not None
    assert outcome.cpu_time_s >= 0.8


@pytest.mark.parametrize(
    "values",
    [
        {"argv": ["/no/such/program"]},
        {"argv": ["/etc/passwd"]},
        {"argv": [sys.executable, "a\0b"]},
        {"argv": [sys.executable, "x" * 2**18]},
        {"environment": {"A": "\0"}},
        {"working_dir": "/no/such/folder"},
        {"log": "/no/such/folder/log.txt"},
    ],
    ids=lambda values: repr(values)[:40],
)
def test_what_cannot_be_started_says_so(trial: Trial, values: dict[str, Any]):
    outcome = wait(trial.start("exit_0", **values))
    assert (outcome.ended, outcome.exit_code) == ("not_started", None)
    assert outcome.detail


def test_a_trial_gets_the_environment_it_is_given_and_no_more(trial: Trial):
    argv = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    wait(trial.start("", argv=argv, environment={"B": "1", "A": "2"}))
    names = trial.log.read_text()
    assert "'A', 'B'" in names
    assert "HOME" not in names
    assert "PATH" not in names


def test_a_trial_reads_nothing_of_ours(trial: Trial):
    argv = [sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"]
    wait(trial.start("", argv=argv))
    assert trial.log.read_text() == "''\n"


def test_trials_side_by_side_do_not_end_each_other(trial: Trial, tmp_path: Path):
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = Trial(other_folder)
    stays = other.start("daemon+sleep")
    other.await_start()
    wait(trial.start("daemon+exit_0"))
    assert len(other.alive()) >= 2
    stays.cancel()
    assert other.alive() == []
