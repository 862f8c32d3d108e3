"""Where and how the trials of one job are launched."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from runners.account import OWN, Account
from runners.artifacts import RunArtifacts
from runners.launchers import Launcher
from runners.spec import Check, LaunchSpec, Limits
from runners.variables import of_trial
from service.domain import Case, Kind, Role
from service.stats.summary import MIN_WARMUP_STEPS
from workloads.records import DIRECTORY_VARIABLE, PROFILE_VARIABLE

SOCKET_VARIABLE = "PACELINE_TURN_SOCKET"  # as in workloads/turns.py, which is the side's


@dataclass(frozen=True, kw_only=True)
class PreparedSide:
    """A side that can be launched: its code and its interpreter lie ready."""

    python: Path
    worktree: Path
    environment: Mapping[str, str]
    arguments: tuple[str, ...]
    software: Mapping[str, Any]
    restore: Callable[[], None] = lambda: None  # undoes what an earlier trial left in the worktree


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Sides ready to be launched, and all that their launches share."""

    sides: Mapping[Role, PreparedSide]
    launcher: Launcher
    library: Path  # first on the path of every trial: holds `workloads`
    limits: Limits
    artifacts: RunArtifacts
    slot_id: UUID
    check: Check
    account: Account = OWN  # whose trials are

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for trials that are alive together; gone after them."""
        with tempfile.TemporaryDirectory(prefix="paceline-") as name:
            folder = Path(name)
            self.account.let_pass(folder)
            yield folder

    def spec(
        self, case: Case, role: Role, trial_id: str, folder: Path, variables: Mapping[str, str]
    ) -> LaunchSpec:
        """What to launch, with `variables` beside those that every trial has.

        A trial that takes turns is watched by its turn server.

        A script runs in its worktree: a folder `workloads` of its own hides ours, so such a project
        vendors `turns` and `records`. A built-in workload runs from an empty folder, so that
        nothing of the candidate's can shadow it. A static trial is silent until its end, which only
        its deadline bounds.
        """
        side = self.sides[role]
        home = folder / "home"
        path = [str(self.library), *filter(None, [side.environment.get("PYTHONPATH")])]
        ours = {DIRECTORY_VARIABLE: str(folder / "records"), "PYTHONPATH": os.pathsep.join(path)}
        is_static = case.kind is Kind.STATIC
        is_watched = not (SOCKET_VARIABLE in variables or is_static)
        return LaunchSpec(
            trial_id=trial_id,
            slot_id=self.slot_id,
            program=self._program(case, side.arguments, is_profiled=PROFILE_VARIABLE in variables),
            world_size=case.num_processes,
            python=side.python,
            scratch=folder,
            working_dir=folder / "empty" if case.script is None else side.worktree,
            environment={
                **of_trial(home, case.threads_per_rank),
                **side.environment,
                **ours,
                **variables,
            },
            log=folder / "log.txt",
            records=folder / "records",
            deadline_s=case.timeout_s,
            limits=self.limits if is_watched else replace(self.limits, stall_s=0.0),
            is_distributed=not is_static,
            account=self.account,
        )

    def _program(self, case: Case, of_side: Sequence[str], *, is_profiled: bool) -> tuple[str, ...]:
        """What a trial starts, with its arguments; the world size of a static case is the last.

        A built-in workload profiles itself; a script is profiled from outside.
        """
        if case.script is not None:
            script = (case.script, *case.arguments, *of_side)
            num_warmup = MIN_WARMUP_STEPS if case.warmup_steps is None else case.warmup_steps
            profiler = (str(self.library / "workloads" / "profile_script.py"), str(num_warmup))
            return (*profiler, *script) if is_profiled else script
        assert case.workload is not None
        given = (case.workload, *case.arguments, *of_side)
        if case.kind is Kind.STATIC:
            return ("-m", "workloads.static", *given, f"--world-size={case.world_size}")
        return ("-m", "workloads", *given)
