"""A turn server and its clients: two sides of two ranks, each rank a process of its own."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runners.turnserver import Order, Outcome
from service.domain import Role

ROOT = Path(__file__).parents[2]
WORLD_SIZE = 2

# A rank's training loop. `facts` says how many steps there are, how long one takes, and what goes
# wrong in which step.
CLIENT = """
import json, os, sys, time
from workloads.turns import Turns

facts = json.loads(sys.argv[1])

class Sink:
    def __init__(self):
        self.steps = []
    def step(self, index, time_s, **fields):
        self.steps.append([fields["turn"], time_s])

sink, starts = Sink(), []
time.sleep(facts.get("late_s", 0))
turns = Turns(steps=facts["steps"], records=sink)
print("met", flush=True)
while turns.step():
    starts.append(time.monotonic())
    if len(starts) - 1 == facts.get("die_at"):
        os._exit(9)
    if len(starts) - 1 == facts.get("hang_at"):
        time.sleep(600)
    if facts["step_s"]:
        time.sleep(facts["step_s"])
print(json.dumps({"starts": starts, "steps": sink.steps}), flush=True)
"""


class Pair:
    """A turn server and the ranks that were started for it."""

    def __init__(self, folder: str, **values: Any) -> None:
        self.sockets = {role: f"{folder}/{number}" for number, role in enumerate(Role)}
        defaults: dict[str, Any] = {
            "sockets": {role.value: path for role, path in self.sockets.items()},
            "world_size": WORLD_SIZE,
            "num_warmup_turns": 10,
            "min_turns": 20,
            "max_standard_error": 1e9,
            "time_limit_s": 60.0,
            "start_limit_s": 20.0,
            "stall_s": 20.0,
            "seed": 7,
        }
        self.ranks: dict[Role, list[subprocess.Popen[str]]] = {role: [] for role in Role}
        self.server = subprocess.Popen(
            [sys.executable, "-m", "runners.turnserver"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(asdict(Order(**{**defaults, **values}))) + "\n")
        self.server.stdin.flush()
        wait_until(lambda: all(map(os.path.exists, self.sockets.values())))

    def start(self, role: Role, *ranks: dict[str, Any], **facts: Any) -> None:
        """Start the ranks of a side; `facts` hold for all of them."""
        for rank, own in enumerate(ranks or ({},) * WORLD_SIZE):
            environment = {
                "PYTHONPATH": str(ROOT),
                "RANK": str(rank),
                "WORLD_SIZE": str(WORLD_SIZE),
                "PACELINE_TURN_SOCKET": self.sockets[role],
            }
            text = json.dumps({"steps": 10_000, "step_s": 0.002, **facts, **own})
            process = subprocess.Popen(
                [sys.executable, "-c", CLIENT, text],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.ranks[role].append(process)

    def outcome(self) -> Outcome:
        assert self.server.wait(30) == 0
        assert self.server.stdout is not None
        line = self.server.stdout.read()
        return Outcome(**json.loads(line))

    def await_meeting(self, role: Role) -> None:
        """Wait until the ranks of a side have met the server."""
        for process in self.ranks[role]:
            assert process.stdout is not None
            assert process.stdout.readline() == "met\n"
        time.sleep(0.2)

    def let_go(self) -> None:
        """Close the lifeline."""
        assert self.server.stdin is not None
        self.server.stdin.close()

    def ended_alone(self, role: Role) -> list[dict[str, Any]]:
        """What the ranks of a side print at their good end, to which they must come unaided."""
        found = []
        for process in self.ranks[role]:
            text, _ = process.communicate(timeout=10)
            assert process.returncode == 0
            found.append(json.loads(text.splitlines()[-1]))
        return found

    def close(self) -> None:
        for process in [self.server, *(rank for side in self.ranks.values() for rank in side)]:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def wait_until(condition: Any, limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
