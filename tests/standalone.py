"""Standalone mode for tests that kill it: `paceline up` on a folder of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import psutil

from service.cli.client import Client
from service.config import Settings
from service.domain import Status
from service.errors import ServiceUnreachable
from tests.fleet import ROOT, free_port, trials_below
from tests.integration.trainers import make_trainer_repository

LIMIT_S = 180.0
FAST = {"LEASE_S": "5", "KILL_GRACE_S": "2", "RECONCILE_S": "1", "MAX_LOSSES": "30"}


class Standalone:
    """One service with the project `trainers`; data and scratch lie in `data`."""

    def __init__(self) -> None:
        # Short: sockets of turns lie below it, and a socket's path has 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="pl-"))
        self.data = self.folder / "data"
        self.data.mkdir()
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._client = Client(Settings(url=self.url))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        source = self.folder / "source"
        make_trainer_repository(source, ["slower"], steps=60, has_launcher=True)
        self.start()
        try:
            self.ask("POST", "/projects", {"name": "trainers", "source": str(source)})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        if self.is_alive:
            self.kill()
        print(self.log()[-20000:])  # pytest shows it where the test failed
        left = self.gone_within(30)
        shutil.rmtree(self.folder)
        assert not left, f"still alive: {left}"

    def start(self, *through: str) -> None:
        """Start the service; `through` is what to start it by, instead of the command line."""
        argv = [sys.executable, "-m", *(through or ("service.cli",)), "up"]
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment |= {f"PACELINE_{name}": value for name, value in FAST.items()}
        environment |= {"PACELINE_DATA_DIR": str(self.data), "TMPDIR": str(self.data)}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*argv, "--port", str(self._port)],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )

    @property
    def is_alive(self) -> bool:
        """Whether the service's process lives."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self, how: signal.Signals) -> None:
        """Tell it to end; returns when it has."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """An answer, once the service gives one."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                return self._client.get(path) if method == "GET" else self._client.post(path, body)
            except ServiceUnreachable:
                assert self.is_alive, self.log()[-3000:]
                assert time.monotonic() < deadline, self.log()[-3000:]
                time.sleep(0.1)

    def request(self) -> str:
        """Ask for a run of a slower candidate; gives its id."""
        body = {"project": "trainers", "baseline": "main", "candidate": "slower"}
        ident: str = self.ask("POST", "/runs", body)["id"]
        return ident

    def run(self, run_id: str) -> dict[str, Any]:
        """A run as it is now."""
        found: dict[str, Any] = self.ask("GET", f"/runs/{run_id}")
        return found

    def wait(self, run_id: str) -> dict[str, Any]:
        """A run once it has ended."""
        deadline = time.monotonic() + LIMIT_S
        while not Status((run := self.run(run_id))["status"]).is_final:
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.2)
        return run

    def await_death_or(self, run_id: str) -> None:
        """Wait until the service's process is gone, or a run has ended."""
        deadline = time.monotonic() + LIMIT_S
        while self.is_alive:
            assert time.monotonic() < deadline, self.log()[-3000:]
            with contextlib.suppress(ServiceUnreachable):
                if Status(self._client.get(f"/runs/{run_id}")["status"]).is_final:
                    return
            time.sleep(0.2)

    def await_trial(self) -> None:
        """Wait until ranks of a trial are at work."""
        deadline = time.monotonic() + LIMIT_S
        while len(trials_below(self.data)) < 4:
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.05)

    def gone_within(self, limit_s: float) -> list[psutil.Process]:
        """What of the trials is alive even after a while."""
        deadline = time.monotonic() + limit_s
        while (left := trials_below(self.data)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def log(self) -> str:
        """What the service printed."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""


def assert_whole(run: dict[str, Any]) -> None:
    """No pair is missing or doubled, and each has its two trials."""
    positions = [pair["position"] for pair in run["pairs"]]
    assert positions == list(range(len(positions)))
    in_pairs = [trial for trial in run["trials"] if trial["pair"] is not None]
    assert len(in_pairs) == 2 * len(positions)


def assert_right(run: dict[str, Any]) -> None:
    """A slower candidate was measured to its end, each pair once."""
    assert (run["status"], run["verdict"]) == ("finished", "regression"), run["headline"]
    assert_whole(run)
