"""Profiles a few steps of a trial that nobody times, for the breakdown of its step time.

Every rank writes a Chrome trace beside its records, by Kineto through torch.profiler: operators
with their shapes, what runs on its GPU, and each step as an annotation `ProfilerStep#N`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which steps are profiled: from `start` up to `end`, which is left out."""

    start: int
    end: int


def make_plan(num_profiled: int, num_warmup: int, num_steps: int) -> Plan | None:
    """The steps right after the warm-up; None where none are to be profiled.

    Raises ValueError where the trial is too short for them.
    """
    if num_profiled == 0:
        return None
    plan = Plan(start=num_warmup, end=num_warmup + num_profiled)
    if plan.end > num_steps:
        raise ValueError(
            f"steps is {num_steps}, too few to profile {num_profiled} after {num_warmup} of "
            f"warm-up: run at least {plan.end}, or profile fewer"
        )
    return plan


@contextmanager
def profiled(
    plan: Plan | None, device: torch.device, path: Path | None
) -> Iterator[Callable[[], None]]:
    """What to call at the end of each step, after the last of which the trace is written to `path`;
    it does nothing where there is no plan.
    """
    if plan is None:
        yield lambda: None
        return
    assert path is not None  # num_profiled_steps() sees to it
    path.parent.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=activities(device),
        # The profiler's own first step is slow: it is the last of the warm-up.
        schedule=schedule(
            wait=max(0, plan.start - 1),
            warmup=min(1, plan.start),
            active=plan.end - plan.start,
            repeat=1,
        ),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        record_shapes=True,
    ) as profiler:
        yield profiler.step


def activities(device: torch.device) -> list[ProfilerActivity]:
    """What is watched: the host, and the GPU where there is one."""
    on_device = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    return [ProfilerActivity.CPU, *on_device]
