"""Profiles a few steps of a trial that nobody times, for the breakdown of its step time.

Every rank writes a Chrome trace beside its records, by Kineto through torch.profiler: operators
with their shapes, what runs on its GPU, and each step as an annotation `ProfilerStep#N`.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from workloads.records import DIRECTORY_VARIABLE, PROFILE_VARIABLE, trace_file


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which steps are profiled: from `start` up to `end`, which is left out."""

    start: int
    end: int


def read_plan(text: str, num_steps: int) -> Plan:
    """The steps that `10:15` names, as Python's slices do. Raises ValueError for none of a trial
    of so many.
    """
    found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    if not found or not int(found[1]) < int(found[2]):
        raise ValueError(
            f"{PROFILE_VARIABLE} is {text!r}; name the first step and the end, as in 10:15"
        )
    plan = Plan(start=int(found[1]), end=int(found[2]))
    if plan.end > num_steps:
        raise ValueError(
            f"steps is {num_steps}, too few to profile steps {plan.start} to {plan.end - 1}: run "
            f"at least {plan.end}, or profile earlier ones"
        )
    return plan


class Profiler:
    """Profiles the steps of this rank that `text` names; `step()` is called as each step ends.

    No step is worth while from `end` on. Raises ValueError for what cannot be profiled.
    """

    def __init__(self, text: str, num_steps: int) -> None:
        plan = read_plan(text, num_steps)
        path = _own_trace()
        self.end, self._num_steps = plan.end, 0
        self._profile = profile(
            activities=activities(torch.cuda.is_available()),
            # The profiler's own first step is slow: it is one before the plan's, if there is one.
            schedule=schedule(
                wait=max(0, plan.start - 1),
                warmup=min(1, plan.start),
                active=plan.end - plan.start,
                repeat=1,
            ),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
        )
        self._profile.start()

    def step(self) -> None:
        """A step has ended; after the last of them the trace is written."""
        self._num_steps += 1
        self._profile.step()
        if self._num_steps == self.end:
            self._profile.stop()


def activities(has_gpu: bool) -> list[ProfilerActivity]:
    """What is watched: the host, and the GPU where there is one."""
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if has_gpu else [])]


def _own_trace() -> Path:
    """Where this rank's trace goes. Raises ValueError where nothing is recorded."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if not directory:
        raise ValueError(f"{PROFILE_VARIABLE} needs {DIRECTORY_VARIABLE}, the folder for the trace")
    return trace_file(Path(directory), int(os.environ.get("RANK", "0")))
