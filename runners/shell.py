"""Runs commands that are not ours, under a guard: nothing they start outlives them, or us."""

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID, uuid4

from runners.account import OWN, Account
from runners.guard import Ended, Order
from runners.guarded import Guarded
from runners.plainfile import read_plain
from runners.spec import SLOT_VARIABLE, TRIAL_VARIABLE, Check
from runners.variables import of_ours, of_setup
from service.domain import Failure, FailureReason
from service.errors import Interrupted, MeasurementFailed

_TIMEOUT_S = 3600.0
_KILL_GRACE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a command printed, and how it failed; None where it did not."""

    output: str
    failed: str | None


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    working_dir: Path,
    *,
    timeout_s: float,
    account: Account = OWN,
    check: Check = lambda: None,
) -> Ran:
    """A command's end. Raises what `check` raises, once nothing of the command is alive.

    Raises Interrupted where its guard was killed, so that nobody knows how it went.
    """
    tag = str(uuid4())
    with tempfile.NamedTemporaryFile(prefix="paceline-", suffix=".log") as log:
        command = Guarded(
            Order(
                argv=list(argv),
                environment={**environment, TRIAL_VARIABLE: tag},
                working_dir=str(working_dir),
                log=log.name,
                tag=f"{TRIAL_VARIABLE}={tag}",
                deadline_s=timeout_s,
                kill_grace_s=_KILL_GRACE_S,
                account=asdict(account),
            )
        )
        try:
            outcome = command.wait(check)
        finally:
            command.cancel()
        if outcome.ended is Ended.UNGUARDED:
            raise Interrupted(f"{shlex.join(argv[:3])}: {outcome.detail}")
        output = read_plain(Path(log.name)).decode(errors="replace")
    if outcome.ended is Ended.EXITED and outcome.exit_code == 0:
        return Ran(output=output, failed=None)
    return Ran(output=output, failed=outcome.detail or f"{outcome.ended} with {outcome.exit_code}")


@dataclass(frozen=True, kw_only=True)
class Shell:
    """Where set-up commands run: their home, the slot they hold, what may end them, and as whom."""

    home: Path
    slot_id: UUID
    check: Check
    account: Account = OWN

    def run(self, argv: Sequence[str], python: Path, working_dir: Path, field: str) -> None:
        """Run a command with the environment of `python` activated.

        Raises MeasurementFailed with its output where it fails, and what `check` raises.
        """
        if not self.home.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            self.account.give(self.home)
        environment = of_setup(self.home)
        environment |= {
            "VIRTUAL_ENV": str(python.parent.parent),
            "PATH": f"{python.parent}{os.pathsep}{environment.get('PATH', os.defpath)}",
        }
        self._run(argv, environment, working_dir, f"{field}: {shlex.join(argv)}")

    def ask(self, argv: Sequence[str]) -> str:
        """Output of a program of ours in a Python that runs what a set-up installed. Raises so."""
        return self._run(argv, of_ours(), Path("/"), f"setup: {shlex.join(argv[:3])}")

    def _run(
        self, argv: Sequence[str], environment: Mapping[str, str], working_dir: Path, what: str
    ) -> str:
        """Output, with a scratch of its own that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            scratch = Path(folder, "tmp")
            scratch.mkdir()
            self.account.let_pass(scratch.parent)
            self.account.give(scratch)
            own = {SLOT_VARIABLE: str(self.slot_id), "TMPDIR": str(scratch)}
            ran = run(
                argv,
                {**environment, **own},
                working_dir,
                timeout_s=_TIMEOUT_S,
                account=self.account,
                check=self.check,
            )
        if ran.failed is not None:
            failure = Failure(
                reason=FailureReason.SETUP_FAILED, detail=f"{what} failed: {ran.failed}"
            )
            raise MeasurementFailed(failure, ran.output)
        return ran.output
