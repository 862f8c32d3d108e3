"""Launches trials on this machine, with torchrun where they are distributed, each under a guard."""

from dataclasses import asdict, dataclass
from pathlib import Path

from runners.guard import Order, Outcome
from runners.guarded import Guarded
from runners.plainfile import read_plain
from runners.spec import SLOT_VARIABLE, TRIAL_VARIABLE, LaunchSpec


@dataclass(frozen=True)
class Handle:
    """A trial that was submitted."""

    trial: Guarded
    log: Path


def command(spec: LaunchSpec) -> list[str]:
    """The argv of a trial: one torchrun agent that meets its ranks on a free loopback port.

    A trial that is not distributed is one plain process.
    """
    if not spec.is_distributed:
        return [str(spec.python), *spec.program]
    return [
        str(spec.python),
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        f"--nproc-per-node={spec.world_size}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        f"--rdzv-id={spec.trial_id}",
        "--max-restarts=0",
        *spec.program,
    ]


def environment(spec: LaunchSpec) -> dict[str, str]:
    """Environment of a trial: gloo meets on the loopback too, unless somebody chose otherwise."""
    own = {TRIAL_VARIABLE: spec.trial_id, SLOT_VARIABLE: str(spec.slot_id)}
    return {"GLOO_SOCKET_IFNAME": "lo", **spec.environment, **own}


def submit(spec: LaunchSpec) -> Handle:
    """Start a trial."""
    order = Order(
        argv=command(spec),
        environment=environment(spec),
        working_dir=str(spec.working_dir),
        log=str(spec.log),
        tag=f"{TRIAL_VARIABLE}={spec.trial_id}",
        deadline_s=spec.deadline_s,
        kill_grace_s=spec.limits.kill_grace_s,
        watch=str(spec.records),
        start_s=spec.limits.start_s,
        stall_s=spec.limits.stall_s,
        account=asdict(spec.account),
    )
    return Handle(Guarded(order), spec.log)


def root(handle: Handle) -> int:
    """The process below which all of the trial's are, until it has ended."""
    return handle.trial.root


def poll(handle: Handle) -> Outcome | None:
    """How the trial ended; None while it runs."""
    return handle.trial.poll()


def cancel(handle: Handle) -> Outcome:
    """End the trial, if it still runs; returns when nothing of it is alive."""
    return handle.trial.cancel()


def logs(handle: Handle) -> str:
    """What the trial printed so far."""
    try:
        return read_plain(handle.log).decode(errors="replace")
    except OSError:  # not started, or the trial put something else in its place
        return ""
