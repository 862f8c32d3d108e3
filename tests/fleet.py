"""Production mode on one machine: PostgreSQL, Redis, and workers and a beat as real processes."""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

import psutil
import sqlalchemy as sa

from runners.app import make_app, make_send
from service.config import Settings
from service.db import models, reading
from service.db.base import Base
from service.db.session import make_engine, make_sessions, transaction
from service.db.views import RunDetail
from service.domain import SideSpec, Status, Verdict
from service.usecases import registry, runs, schedules
from tests import redis
from tests.integration.trainers import make_trainer_repository

ROOT = Path(__file__).parents[1]
LIMIT_S = 120.0

Process = subprocess.Popen[bytes]


class Fleet:
    """A project, a cluster and the processes that serve it; `alive` sees what trials left."""

    def __init__(
        self, database_url: str, redis_program: Path, *, steps: int = 150, **settings: Any
    ) -> None:
        # Short: sockets of turns lie below it, and a socket's path has 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="pl-"))
        self.folder.chmod(0o711)  # a trial's user may pass
        self.source = self.folder / "source"
        self._steps = steps
        self.redis = redis.Server(redis_program)
        fast = {"lease_s": 10, "kill_grace_s": 3, "reconcile_s": 1, "max_losses": 3}
        self.settings = Settings(
            data_dir=self.folder / "api",
            database_url=database_url,
            broker_url=self.redis.url,
            artifact_url=f"file://{self.folder}/artifacts",
            trial_user=settings.pop("trial_user", getpass.getuser()),
            **{**fast, "start_s": 60, "stall_s": 20, **settings},
        )
        self._engine = make_engine(database_url)
        self._sessions = make_sessions(self._engine)
        self._app = make_app(self.settings)
        self._send = make_send(self._app)
        self._processes: list[Process] = []
        self._logs: dict[int, Path] = {}
        self._slots: dict[int, str | None] = {}

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self) -> None:
        self.redis.start()
        make_trainer_repository(self.source, ["ok", "slower"], steps=self._steps, has_launcher=True)
        (self.folder / "artifacts").mkdir(mode=0o700)
        with transaction(self._sessions, self._send) as session:
            registry.add_project(session, name="trainers", source=str(self.source))
            size = len(os.sched_getaffinity(0))
            registry.serve_cluster(session, "local", "0", num_cpus=size, num_devices=0)

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(30)
        print(self.logs())  # pytest shows it where the test failed
        left = self.gone_within(30)
        self._engine.dispose()
        self._app.close()
        self.redis.__exit__()
        shutil.rmtree(self.folder)
        assert not left, f"still alive: {left}"

    def start(self, command: str, *, slot: str | None = None) -> Process:
        """Start a worker for a slot, or the beat; returns when it is at work."""
        process = self._start(["service.cli", command], slot)
        self.until(lambda: "is ready" in self.log(process) or process.poll() is not None)
        assert process.poll() is None, self.log(process)
        return process

    def start_dying(self, moment: str, number: int, *, slot: str) -> Process:
        """Start a worker that is killed before or after its N-th commit."""
        return self._start(["tests.dying", moment, str(number), "worker"], slot)

    def _start(self, words: list[str], slot: str | None) -> Process:
        argv = [sys.executable, "-m", *words]
        argv += ["--cluster", "local", "--slot", slot] if slot is not None else []
        return self._spawn(argv, self.folder / f"{uuid4().hex[:8]}.log", slot)

    def _spawn(self, argv: list[str], log: Path, slot: str | None) -> Process:
        with log.open("ab") as file:
            process = subprocess.Popen(
                argv, cwd=ROOT, env=self._environment(slot), stdout=file, stderr=file
            )
        self._processes.append(process)
        self._logs[process.pid], self._slots[process.pid] = log, slot
        return process

    def log(self, process: Process) -> str:
        """What a process printed."""
        return self._logs[process.pid].read_text()

    def add_torch_project(self) -> None:
        """A project `torch` whose trials run under the real torchrun."""
        source = self.folder / "torch"
        make_trainer_repository(source, ["slower"])
        with transaction(self._sessions, self._send) as session:
            registry.add_project(session, name="torch", source=str(source))

    def request(self, candidate: str, project: str = "trainers") -> UUID:
        """Ask for a run of a candidate against main."""
        with transaction(self._sessions, self._send) as session:
            body = runs.RunRequest(
                project=project,
                baseline=SideSpec(revision="main"),
                candidate=SideSpec(revision=candidate),
            )
            return runs.request(session, body).id

    def schedule(self, candidate: str, *, next_at: datetime) -> None:
        """Set the schedule `nightly`, whose next time is told."""
        body = runs.RunRequest(project="trainers", candidate=SideSpec(revision=candidate))
        with transaction(self._sessions, self._send) as session:
            row, _ = schedules.put(session, "nightly", "0 2 * * *", body, created_by="ada")
            row.next_at = next_at

    def next_run(self, after: UUID | None = None) -> UUID:
        """Id of the newest run, once it is another than `after`."""
        query = sa.select(models.Run.id).order_by(models.Run.created_at.desc()).limit(1)
        found: list[UUID] = []

        def is_there() -> bool:
            with self._sessions() as session:
                found[:] = session.scalars(query).all()
            return found not in ([], [after])

        self.until(is_there)
        return found[0]

    def run(self, run_id: UUID) -> RunDetail:
        """A run as it is now."""
        with self._sessions() as session:
            return reading.run_detail(session, run_id)

    def status(self, run_id: UUID) -> Status:
        """A run's status."""
        with self._sessions() as session:
            return session.scalars(sa.select(models.Run.status).filter_by(id=run_id)).one()

    def wait(self, run_id: UUID) -> RunDetail:
        """A run once it has ended; nothing of its trials is alive then."""
        self.until(lambda: self.status(run_id).is_final)
        return self.run(run_id)

    def await_trial(self) -> None:
        """Wait until ranks of a trial are at work."""
        self.until(lambda: len(self.alive()) >= 4)

    def until(self, is_so: Callable[[], object], limit_s: float = LIMIT_S) -> None:
        """Wait until something is so; the processes' logs go with the failure."""
        deadline = time.monotonic() + limit_s
        while not is_so():
            self._restart_failed()
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not happen within {limit_s:.0f} s\n{self.logs()}")
            time.sleep(0.1)

    def _restart_failed(self) -> None:
        """Start again what ended with a failure, as systemd and Compose do."""
        for process in [p for p in self._processes if p.poll() is not None and p.returncode > 0]:
            self._processes.remove(process)
            self._spawn(list(process.args), self._logs[process.pid], self._slots[process.pid])

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"== {p.args}\n{self.log(p)[-3000:]}" for p in self._processes)

    def owners(self) -> set[str]:
        """Workers that measured."""
        with self._sessions() as session:
            return set(session.scalars(sa.select(models.Job.lease_owner)).all()) - {None}

    def num_open(self) -> int:
        """Runs that have not ended."""
        with self._sessions() as session:
            query = sa.select(sa.func.count()).where(models.Run.finished_at.is_(None))
            return session.scalars(query).one()

    def held(self) -> int:
        """Slots and leases that are taken."""
        with self._sessions() as session:
            slots = sa.select(sa.func.count()).where(models.Slot.job_id.is_not(None))
            leases = sa.select(sa.func.count()).where(models.Job.lease_until.is_not(None))
            return session.scalars(slots).one() + session.scalars(leases).one()

    def rows(self) -> dict[str, int]:
        """Rows per table."""
        with self._sessions() as session:
            return {
                name: session.scalars(sa.select(sa.func.count()).select_from(table)).one()
                for name, table in Base.metadata.tables.items()
            }

    def alive(self) -> list[psutil.Process]:
        """Processes of trials of this fleet."""
        return trials_below(self.folder)

    def processes(self) -> list[psutil.Process]:
        """Processes of trials, and the guards and turn servers of living workers."""
        found = self.alive()
        for worker in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                found += psutil.Process(worker.pid).children()
        return found

    def gone_within(self, limit_s: float) -> list[psutil.Process]:
        """What of the trials is alive even after a while."""
        deadline = time.monotonic() + limit_s
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _environment(self, slot: str | None) -> dict[str, str]:
        """Of a process: each slot is as a machine of its own."""
        names = set(Settings.model_fields) - {"data_dir"}
        ours = {f"PACELINE_{name.upper()}": str(getattr(self.settings, name)) for name in names}
        data_dir = self.folder / f"data-{slot or 'none'}"
        basic = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        temporary = {"TMPDIR": str(self.folder)}
        return {**basic, **ours, "PACELINE_DATA_DIR": str(data_dir), **temporary}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def trials_below(folder: Path) -> list[psutil.Process]:
    """Living processes of trials whose scratch lies below a folder."""
    mark = f"TMPDIR={folder}/".encode()
    found = []
    for process in psutil.process_iter():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            has_mark = any(variable.startswith(mark) for variable in environment)
            if has_mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (OSError, psutil.NoSuchProcess):
            continue
    return found


def assert_right(run: RunDetail) -> None:
    """A slow candidate was measured to its end, each pair once."""
    state = (run.status, run.verdict)
    assert state == (Status.FINISHED, Verdict.REGRESSION), (run.headline, run.failure_detail)
    assert_whole(run)


def assert_whole(run: RunDetail) -> None:
    """No pair is missing or doubled, and each has its two trials."""
    positions = [pair.position for pair in run.pairs]
    assert positions == list(range(len(positions)))
    trials = [trial for trial in run.trials if trial.pair is not None]
    assert len(trials) == 2 * len(positions)
