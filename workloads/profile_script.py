"""Profiles a few steps of any trainer from outside: a step ends with one of its first optimizer.

    torchrun ... workloads/profile_script.py NUM_WARMUP train.py --steps 400

It runs `train.py` as `python train.py` would, profiles the $PACELINE_PROFILE steps after NUM_WARMUP
and ends with them, whatever the trainer had in mind. The trainer need not know of it; it must call
an optimizer of torch's, in the process of each rank. Started by its path, not as a module: beside
the trainer there may be another `workloads`.
"""

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as c10d
from torch.optim.optimizer import register_optimizer_step_post_hook

from workloads.dist import num_profiled_steps, own_trace
from workloads.profiling import Plan, profiled


def main(num_warmup: str, script: str, *arguments: str) -> None:
    """Run the script with its steps watched. Raises SystemExit where it ends too soon."""
    plan = Plan(start=int(num_warmup), end=int(num_warmup) + num_profiled_steps())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with profiled(plan, device, own_trace()) as step_done:
        steps = _Steps(plan.end, step_done)
        register_optimizer_step_post_hook(steps.count)
        _become(script, arguments)
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
        raise SystemExit(
            f"{script} ended after {steps.num_done} steps of an optimizer of torch's; its profile "
            f"needs {plan.end}: let it run longer, or warm up less"
        )


class _Steps:
    """Counts the steps of the optimizer that came first; after the last of them the rank ends."""

    def __init__(self, num_steps: int, done: Callable[[], None]) -> None:
        self.num_done = 0
        self._num_steps, self._done = num_steps, done
        self._first: Any = None

    def count(self, optimizer: Any, *_call: Any) -> None:
        """An optimizer has made its step."""
        self._first = self._first or optimizer
        if optimizer is self._first:
            self.num_done += 1
            self._done()  # the last time it writes the trace
            if self.num_done == self._num_steps:
                _end()


def _end() -> NoReturn:
    """Leave at once: a trainer may catch SystemExit, and a finished trace is all that is wanted."""
    if c10d.is_available() and c10d.is_initialized():
        c10d.barrier()  # others may still read from this rank
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _become(script: str, arguments: tuple[str, ...]) -> None:
    """Let the script find its arguments, its neighbours and its own `workloads`, not ours."""
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    for name in [name for name in sys.modules if name.partition(".")[0] == "workloads"]:
        del sys.modules[name]


if __name__ == "__main__":
    main(*sys.argv[1:])
