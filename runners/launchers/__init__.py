"""How a trial is started: one file per launcher, found by its module name."""

from typing import Any, Protocol

from runners.guard import Outcome
from runners.spec import LaunchSpec


class Launcher(Protocol):
    """What a module of this folder offers."""

    def command(self, spec: LaunchSpec) -> list[str]:
        """The argv of a trial."""

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """The environment of a trial."""

    def submit(self, spec: LaunchSpec) -> Any:
        """Start a trial; gives the handle that the others take."""

    def root(self, handle: Any) -> int:
        """The process on this machine below which all of the trial's are, until it has ended."""

    def poll(self, handle: Any) -> Outcome | None:
        """How the trial ended; None while it runs."""

    def cancel(self, handle: Any) -> Outcome:
        """End the trial, if it still runs; returns when nothing of it is alive."""

    def logs(self, handle: Any) -> str:
        """What the trial printed so far."""
