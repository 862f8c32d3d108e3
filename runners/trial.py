"""One trial on its way: its files, its launch, its end, and what came of it."""

import logging
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

from runners.bench import Bench
from runners.ending import exit_code, failure
from runners.guard import Outcome
from runners.launchers import Launcher
from runners.parsers import torchrun
from runners.samples import Reading, read_samples, with_throughput
from runners.spec import LaunchSpec
from runners.static import read_counts
from runners.telemetry import summary
from runners.telemetry.gpu import Gpus
from runners.telemetry.host import Host
from runners.telemetry.sampler import Sampler
from service.domain import Case, Failure, FailureReason, Kind, Role
from service.logs import bound
from service.stats.summary import num_warmup
from service.usecases.recording import TrialResult
from workloads.records import DIRECTORY_VARIABLE, PROFILE_VARIABLE

logger = logging.getLogger(__name__)

_MIN_USABLE_TURNS = 20  # turns of one step, but where a step is shorter than a millisecond
_POLL_S = 0.05
_TRACES = "/tmp/paceline-traces"  # of a profiled trial that somebody runs by hand


class Trial:
    """A launched trial."""

    def __init__(
        self, bench: Bench, case: Case, role: Role, scratch: Path, variables: Mapping[str, str]
    ) -> None:
        self.id = uuid4()
        self.role = role
        self._bench, self._case = bench, case
        folder = scratch / str(self.id)
        # The log in it stays ours, as does what these are called.
        own = [folder / name for name in ("records", "empty", "home")]
        folder.mkdir()
        for path in own:
            path.mkdir()
        bench.account.let_pass(folder)
        bench.account.give(*own)
        self._spec = bench.spec(case, role, str(self.id), folder, variables)
        self._started_at = datetime.now(UTC)
        self._handle = bench.launcher.submit(self._spec)
        self._telemetry = folder / "telemetry.jsonl"
        with bound(trial_id=self.id):
            visible = bench.launcher.environment(self._spec).get("CUDA_VISIBLE_DEVICES")
            host = Host(bench.launcher.root(self._handle))
            self._sampler = Sampler(self._telemetry, host, partial(Gpus, visible))

    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs."""
        outcome = self._bench.launcher.poll(self._handle)
        if outcome is not None:
            self._sampler.stop(outcome.cpu_time_s)
        return outcome

    @property
    def records(self) -> Path:
        """The folder of its records and traces."""
        return self._spec.records

    @property
    def log(self) -> str:
        """What it printed so far."""
        return self._bench.launcher.logs(self._handle)

    def wait(self, limit_s: float | None = None) -> Outcome:
        """How it ended; past the limit it is ended. Raises what the bench's check raises."""
        start = time.monotonic()
        while (outcome := self.outcome()) is None:
            self._bench.check()
            if limit_s is not None and time.monotonic() - start > limit_s:
                return self.cancel()
            time.sleep(_POLL_S)
        return outcome

    def cancel(self) -> Outcome:
        """End it, if it still runs."""
        outcome = self._bench.launcher.cancel(self._handle)
        self._sampler.stop(outcome.cpu_time_s)
        return outcome

    def result(
        self,
        *,
        seen: Failure | None = None,
        num_warmup_steps: int | None = None,
        steps_per_turn: int = 1,
        max_steps: int | None = None,
    ) -> TrialResult:
        """The trial as data, once it has ended.

        `seen` is a failure that only an observer could see, such as a silent turn;
        `num_warmup_steps` None means the default for the steps that were recorded. Steps past the
        first `max_steps` do not count: no turn was handed out for them.
        """
        outcome = self.outcome()
        assert outcome is not None
        report = torchrun.parse(self.log)
        failed = seen or failure(outcome, self.log, report)
        read = failed or self._read(num_warmup_steps, steps_per_turn, max_steps)
        if isinstance(read, Failure):
            failed, read = read, Reading(num_warmup_steps=num_warmup_steps or 0)
        with bound(trial_id=self.id):
            state = failed.detail if failed else "valid"
            logger.info("%s of %s: %s", self.role, self._case.name, state)
        return TrialResult(
            trial_id=self.id,
            role=self.role,
            started_at=self._started_at,
            finished_at=datetime.now(UTC),
            command=reproduction(self._bench.launcher, self._spec),
            software=self._bench.sides[self.role].software,
            exit_code=exit_code(outcome, report),
            failure=failed,
            num_warmup_steps=read.num_warmup_steps,
            samples=read.samples,
            operators=read.operators,
            files=self._bench.artifacts.keep(
                str(self.id),
                self._spec.log,
                self._telemetry,
                self._spec.records,
                self._spec.world_size,
            ),
        )

    def _read(
        self, num_warmup_steps: int | None, steps_per_turn: int, max_steps: int | None
    ) -> Reading | Failure:
        """What its records say, or why they are unusable. A profiled trial is not timed."""
        if PROFILE_VARIABLE in self._spec.environment:
            return Reading()
        if self._case.kind is Kind.STATIC:
            return read_counts(self._spec.records)
        launched_at = self._started_at.timestamp()
        world_size = self._case.world_size
        samples = read_samples(self._spec.records, world_size, launched_at, max_steps)
        if isinstance(samples, Failure):
            return samples
        num_steps = len(samples["step_time_s"])
        warmup = num_warmup(num_steps, self._case.warmup_steps)
        if num_warmup_steps is not None:
            warmup = num_warmup_steps
        min_steps = _MIN_USABLE_TURNS * steps_per_turn
        if num_steps - warmup < min_steps:
            detail = (
                f"It ran {num_steps} steps; a measurement needs {warmup} of warm-up and "
                f"{min_steps} more. Let the trainer run longer."
            )
            return Failure(reason=FailureReason.TOO_FEW_STEPS, detail=detail)
        steady = with_throughput(samples, warmup) | summary.metrics(self._sampler.samples)
        return Reading(samples=steady, num_warmup_steps=warmup)


def reproduction(launcher: Launcher, spec: LaunchSpec) -> str:
    """A shell command that runs this trial by hand, alone and without turns."""
    environment = dict(launcher.environment(spec))
    ours = {}
    if num_profiled := environment.get(PROFILE_VARIABLE):
        ours = {PROFILE_VARIABLE: num_profiled, DIRECTORY_VARIABLE: _TRACES}
    given = {
        name: value
        for name, value in environment.items()
        if not name.startswith(("PACELINE_", "GIT_CONFIG_"))
        and name not in ("PATH", "HOME", "TMPDIR")
    }
    variables = [f"{name}={shlex.quote(value)}" for name, value in sorted((given | ours).items())]
    argv = shlex.join(launcher.command(spec))
    is_gone = spec.working_dir.is_relative_to(spec.scratch)
    folder = '"$(mktemp -d)"' if is_gone else shlex.quote(str(spec.working_dir))
    return f"cd {folder} && env {' '.join(variables)} {argv}"
