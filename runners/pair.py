"""Measures one pair, in lock-step or as separate launches, and single solo trials."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from runners import turnserver
from runners.artifacts import ArtifactStore
from runners.guard import Outcome
from runners.launchers import local
from runners.spec import LaunchSpec, trial_environment
from runners.trial import Failure, failure, first_step_at, read_samples, reproduction
from service.db.base import Samples
from service.domain import Arrangement, Case, FailureReason, Role
from service.stats.summary import num_warmup
from service.usecases.recording import PairResult, TrialResult
from workloads.records import DIRECTORY_VARIABLE

_ROOT = Path(__file__).parents[1]
_SOCKET_VARIABLE = "PACELINE_TURN_SOCKET"  # as in workloads/turns.py, which is the side's
_MIN_TURNS = 200
_MIN_USABLE_TURNS = 20  # turns of one step, but where a step is shorter than a millisecond
_MAX_STANDARD_ERROR = 0.01
_POLL_S = 0.05
_NOTICE_S = 3.0  # the turn server sees a dead rank at once; so long it may take to say so

Check = Callable[[], None]  # raises when the measurement must stop


@dataclass(frozen=True, kw_only=True)
class PreparedSide:
    """A side that can be launched: its code and its interpreter lie ready."""

    role: Role
    python: Path
    worktree: Path
    environment: Mapping[str, str]
    arguments: tuple[str, ...]
    software: Mapping[str, Any]
    restore: Callable[[], None] = lambda: None  # undoes what an earlier trial left in the worktree


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long things may take, in seconds."""

    start_s: float
    stall_s: float
    kill_grace_s: float


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where and how trials of one run are launched."""

    sides: Mapping[Role, PreparedSide]
    library: Path  # first on the path of every trial: holds `workloads`
    limits: Limits
    store: ArtifactStore
    check: Check


class _Trial:
    """A trial on its way: its files, its guard, its end."""

    def __init__(self, bench: Bench, case: Case, role: Role, scratch: Path, socket: str) -> None:
        self.id = uuid4()
        self.role = role
        self._bench, self._case = bench, case
        self._side = bench.sides[role]
        folder = scratch / str(self.id)
        self.records = folder / "records"
        self.records.mkdir(parents=True)
        (folder / "empty").mkdir()
        self.spec = _spec(bench, case, self._side, str(self.id), folder, socket)
        self._side.restore()
        self.started_at = datetime.now(UTC)
        self.handle = local.submit(self.spec)

    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs."""
        return local.poll(self.handle)

    def await_end(self, limit_s: float | None = None) -> Outcome:
        """Wait for the end; past the limit the trial is ended."""
        start = time.monotonic()
        while (outcome := self.outcome()) is None:
            self._bench.check()
            if limit_s is not None and time.monotonic() - start > limit_s:
                return local.cancel(self.handle)
            time.sleep(_POLL_S)
        return outcome

    def close(self) -> None:
        """End it if it still runs."""
        if self.outcome() is None:
            local.cancel(self.handle)

    def result(
        self, verdict: Failure | None, num_warmup_steps: int | None, steps_per_turn: int = 1
    ) -> TrialResult:
        """The trial as data. `verdict` is a failure that was seen from outside, such as a stall;
        `num_warmup_steps` None means the default for the steps that were recorded.
        """
        outcome = self.outcome()
        assert outcome is not None
        bad = verdict or failure(outcome, local.logs(self.handle))
        samples: dict[str, Samples] = {}
        if bad is None:
            read = read_samples(self.records, self._case.world_size)
            bad = read if isinstance(read, Failure) else None
            samples = {} if isinstance(read, Failure) else read
        num_steps = len(samples.get("step_time_s", ()))
        warmup = num_warmup(num_steps, self._case.warmup_steps)
        if num_warmup_steps is not None:
            warmup = num_warmup_steps
        min_steps = _MIN_USABLE_TURNS * steps_per_turn
        if bad is None and num_steps - warmup < min_steps:
            detail = (
                f"It ran {num_steps} steps; a measurement needs {warmup} of warm-up and "
                f"{min_steps} more. Let the trainer run longer."
            )
            bad = Failure(reason=FailureReason.TOO_FEW_STEPS, detail=detail)
        if bad is None:
            started = first_step_at(self.records, self._case.world_size)
            assert started is not None
            samples["startup_time_s"] = np.array([started - self.started_at.timestamp()])
        return TrialResult(
            trial_id=self.id,
            role=self.role,
            started_at=self.started_at,
            finished_at=datetime.now(UTC),
            command=reproduction(self.spec),
            software=self._side.software,
            exit_code=outcome.exit_code if bad is None or bad.exit_code is None else bad.exit_code,
            failure_reason=None if bad is None else bad.reason,
            failure_detail=None if bad is None else bad.detail,
            num_warmup_steps=warmup,
            samples={} if bad is not None else with_throughput(samples, warmup),
            files=self._bench.store.keep(str(self.id), self.spec.log, self.records),
        )


def with_throughput(samples: Mapping[str, Samples], warmup: int) -> dict[str, Samples]:
    """Samples with work over time: tokens_per_s where every step told its tokens, else steps_per_s.

    Both are over the summed step times of the steady window: a median hides rare long steps.
    """
    found = dict(samples)
    tokens = found.pop("tokens_per_step", None)
    times = found["step_time_s"][warmup:]
    if tokens is None or not tokens[warmup:].any():
        found["steps_per_s"] = np.array([len(times) / times.sum()])
    else:
        found["tokens_per_s"] = np.array([tokens[warmup:].sum() / times.sum()])
    return found


def measure_solo(bench: Bench, case: Case, role: Role) -> TrialResult:
    """One trial with nothing else alive beside it."""
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        trial = _Trial(bench, case, role, Path(folder), socket="")
        try:
            trial.await_end()
            return trial.result(None, None)
        finally:
            trial.close()


def measure_abba(bench: Bench, case: Case, first: Role) -> PairResult:
    """A pair of separate launches, one after the other; the caller balances `first`."""
    started_at = datetime.now(UTC)
    trials = {role: measure_solo(bench, case, role) for role in _in_order(first)}
    return _pair(Arrangement.ABBA, first, 1, started_at, trials)


def measure_lockstep(bench: Bench, case: Case, first: Role, seed: int) -> PairResult:
    """A pair of launches that are alive together and take turns of one step."""
    started_at = datetime.now(UTC)
    warmup = num_warmup(_MIN_TURNS) if case.warmup_steps is None else case.warmup_steps
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder, ExitStack() as stack:
        # Names of equal length: a side must not be able to tell which one it is.
        sockets = {role: f"{folder}/{number}" for number, role in enumerate(_in_order(first))}
        server = _Server(
            turnserver.Order(
                sockets={role.value: path for role, path in sockets.items()},
                world_size=case.world_size,
                num_warmup_turns=warmup,
                min_turns=_MIN_TURNS,
                max_standard_error=_MAX_STANDARD_ERROR,
                time_limit_s=case.timeout_s / 2,
                start_limit_s=bench.limits.start_s,
                stall_s=bench.limits.stall_s,
                seed=seed,
            )
        )
        stack.callback(server.close)
        server.await_sockets(sockets.values())
        trials: dict[Role, _Trial] = {}
        for role in _in_order(first):
            trials[role] = _Trial(bench, case, role, Path(folder), sockets[role])
            stack.callback(trials[role].close)
        turns = _await_turns(bench, server, trials)
        seen = _end_trials(bench, turns, trials)
        results = {
            role: trial.result(seen.get(role), warmup, turns.steps_per_turn)
            for role, trial in trials.items()
        }
    return _pair(Arrangement.LOCKSTEP, first, turns.steps_per_turn, started_at, results)


class _Server:
    """The turn server's process."""

    def __init__(self, order: turnserver.Order) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runners.turnserver"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self._process.stdin.flush()

    def await_sockets(self, paths: Any) -> None:
        """Wait until the server listens."""
        while not all(os.path.exists(path) for path in paths):  # noqa: PTH110 (sockets)
            if self._process.poll() is not None:
                raise RuntimeError(f"the turn server ended with {self._process.returncode}")
            time.sleep(_POLL_S / 10)

    def has_ended(self) -> bool:
        """Whether the turns are over."""
        return self._process.poll() is not None

    def outcome(self) -> turnserver.Outcome:
        """How the turns ended; a server that still runs is told to let the sides go."""
        self.close()
        assert self._process.stdout is not None
        line = self._process.stdout.read()
        if not line.strip():
            raise RuntimeError(f"the turn server ended with {self._process.returncode}")
        return turnserver.Outcome(**json.loads(line))

    def close(self) -> None:
        """Close the lifeline and wait for the server's end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _await_turns(
    bench: Bench, server: _Server, trials: Mapping[Role, _Trial]
) -> turnserver.Outcome:
    """Wait until the turns are over. A side that ends without having met the server ends them."""
    ended_since: float | None = None
    while not server.has_ended():
        bench.check()
        if any(trial.outcome() for trial in trials.values()):
            ended_since = ended_since or time.monotonic()
            if time.monotonic() - ended_since > _NOTICE_S:
                break
        time.sleep(_POLL_S)
    return server.outcome()


def _end_trials(
    bench: Bench, turns: turnserver.Outcome, trials: Mapping[Role, _Trial]
) -> dict[Role, Failure]:
    """Bring both trials to their end; returns the failures that only the turn server could see."""
    seen: dict[Role, Failure] = {}
    if turns.side is not None and turns.ended in ("stalled", "no_show"):
        culprit = trials[Role(turns.side)]
        if culprit.outcome() is None:  # else it ended by itself meanwhile, and its end says why
            culprit.close()
            seen[culprit.role] = _stall(turns, bench.limits)
    others_failed = turns.ended in ("died", "released", "stalled", "no_show")
    grace_s = bench.limits.kill_grace_s if others_failed else bench.limits.stall_s
    for role, trial in trials.items():
        outcome = trial.await_end(grace_s)
        if outcome.ended == "released" and not others_failed:
            detail = f"It did not end within {grace_s:.0f} s after its last turn."
            seen[role] = Failure(reason=FailureReason.STALLED, detail=detail)
    return seen


def _stall(turns: turnserver.Outcome, limits: Limits) -> Failure:
    if turns.ended == "stalled":
        detail = f"Rank {turns.rank} was silent for {limits.stall_s:.0f} s in its turn."
    else:
        detail = (
            f"It did not reach its first step within {limits.start_s:.0f} s. A trainer calls "
            "`turns.step()` once per step."
        )
    return Failure(reason=FailureReason.STALLED, detail=detail)


def _pair(
    arrangement: Arrangement,
    first: Role,
    steps_per_turn: int,
    started_at: datetime,
    trials: Mapping[Role, TrialResult],
) -> PairResult:
    pair = PairResult(
        arrangement=arrangement,
        first=first,
        steps_per_turn=steps_per_turn,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        trials=trials,
    )
    failed = [trials[role] for role in Role if trials[role].failure_reason is not None]
    if not failed:
        return pair
    # The side whose own failure ended the pair explains it, not the one that was let go.
    failed.sort(key=lambda trial: trial.failure_reason is FailureReason.PEER_FAILED)
    culprit = failed[0]
    return replace(
        pair,
        invalid_reason=culprit.failure_reason,
        invalid_detail=f"{culprit.role}: {culprit.failure_detail}",
    )


def _in_order(first: Role) -> tuple[Role, Role]:
    second = Role.CANDIDATE if first is Role.BASELINE else Role.BASELINE
    return first, second


def _spec(
    bench: Bench, case: Case, side: PreparedSide, trial_id: str, folder: Path, socket: str
) -> LaunchSpec:
    """What to launch. A script runs in its worktree: a folder `workloads` of its own hides ours, so
    such a project vendors `turns` and `records`. A built-in workload runs from an empty folder, so
    that nothing of the candidate's can shadow it.
    """
    path = [str(bench.library), *filter(None, [side.environment.get("PYTHONPATH")])]
    ours = {DIRECTORY_VARIABLE: str(folder / "records"), "PYTHONPATH": os.pathsep.join(path)}
    if socket:
        ours[_SOCKET_VARIABLE] = socket
    if case.script is not None:
        program: tuple[str, ...] = (case.script,)
        working_dir = side.worktree
    else:
        assert case.workload is not None
        program, working_dir = ("-m", "workloads", case.workload), folder / "empty"
    environment = trial_environment(
        os.environ,
        scratch=folder,
        threads_per_rank=case.threads_per_rank,
        overrides={**side.environment, **ours},
    )
    return LaunchSpec(
        trial_id=trial_id,
        program=(*program, *case.arguments, *side.arguments),
        world_size=case.world_size,
        python=side.python,
        scratch=folder,
        working_dir=working_dir,
        environment=environment,
        log=folder / "log.txt",
        records=folder / "records",
        deadline_s=case.timeout_s,
        start_s=bench.limits.start_s,
        stall_s=0.0 if socket else bench.limits.stall_s,
        kill_grace_s=bench.limits.kill_grace_s,
    )
