"""The one timing harness: drives a workload's steps through Turns and writes its records.

A workload is a module with a frozen dataclass `Config`, which has `steps`, and a function
`run(config, dist)`: it sets up and returns an iterator. Advancing the iterator runs one step and
gives what there is to note of it, by name: `tokens`, `loss`, `model_flops`, or the value of a
metric (`busbw_bytes_per_s@1048576`). Values are numbers, or have an `item()`, such as a tensor on
its device: that is called after the turn has ended.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import torch

from workloads import flops
from workloads.dist import (
    Dist,
    backend_for,
    clock_for,
    memory_of,
    num_profiled_steps,
    process_group,
)
from workloads.profiling import Plan, make_plan, profiled
from workloads.records import Records, trace_file
from workloads.turns import StepSink, Turns

WARMUP_STEPS = 10
WARMUP_SHARE = 0.1

Facts = Mapping[str, Any]


class Workload(Protocol):
    """A plug-in: any module of training/, comm/ and the like."""

    __name__: str
    Config: type

    def run(self, config: Any, dist: Dist) -> Iterator[Facts]: ...


def num_warmup(num_steps: int) -> int:
    """Steps at the front that do not count: the first max(10, 10 %)."""
    return max(WARMUP_STEPS, round(WARMUP_SHARE * num_steps))


class Meter:
    """Passes finished steps on to the records and keeps them for the summary."""

    def __init__(self, records: StepSink) -> None:
        self._records = records
        self._steps: list[Facts] = []

    def step(self, index: int, time_s: float, *, turn: int, **facts: Any) -> None:
        """One finished step, see Records.step."""
        self._records.step(index, time_s, turn=turn, **facts)
        self._steps.append({"time_s": time_s, **facts})

    def summary(self, peak_flops_per_s: float | None) -> str | None:
        """The steps after the first max(10, 10 %), for people; None where there are none.

        It is of this rank alone. Verdicts are made from the records.
        """
        steps = self._steps[num_warmup(len(self._steps)) :]
        if not steps:
            return None
        lines = [f"{len(steps)} steps after warm-up, the median of each:"]
        for name in steps[0]:
            lines.append(f"  {name} {_median(steps, name):.6g}")
        if "tokens" in steps[0]:
            lines.append(f"tokens_per_s {_rate(steps, 'tokens'):.6g}")
        if "model_flops" in steps[0]:
            mfu = flops.mfu(_rate(steps, "model_flops"), peak_flops_per_s)
            lines.append(f"mfu {'unknown' if mfu is None else f'{mfu:.4f}'}")
        return "\n".join(lines)


def _median(steps: Sequence[Facts], name: str) -> float:
    return statistics.median(step[name] for step in steps)


def _rate(steps: Sequence[Facts], work: str) -> float:
    """Work per second of the steps together."""
    return sum(step[work] for step in steps) / sum(step["time_s"] for step in steps)


def measure(workload: Workload, config: Any) -> None:
    """Run a workload as this rank, profiled where that is asked for."""
    plan = make_plan(num_profiled_steps(), num_warmup(config.steps), config.steps)
    with Records() as records, process_group() as dist:
        drive(workload, config, dist, records, plan)


def drive(workload: Workload, config: Any, dist: Dist, records: Records, plan: Plan | None) -> None:
    """Write the records of one trial: environment, set-up, steps, memory; print its summary.

    A trial that is profiled ends with its profile, and has no summary: its steps are slower.
    """
    name = workload.__name__.removeprefix("workloads.")
    facts = environment(dist, config)
    records.write("env", workload=name, config=asdict(config), **facts)
    records.phase("process_group_init", dist.init_time_s)

    start = time.perf_counter()
    steps = workload.run(config, dist)
    records.phase("setup", time.perf_counter() - start)

    meter = Meter(records)
    turns = Turns(plan.end if plan else config.steps, meter, **clock_for(dist.device))
    trace = trace_file(records.directory, records.rank) if records.directory else None
    with profiled(plan, dist.device, trace) as step_done:
        while turns.step():
            turns.note(**next(steps))
            step_done()
    if memory := memory_of(dist.device):
        records.memory(**memory)
    if dist.rank == 0 and not plan and (summary := meter.summary(facts["peak_flops_per_s"])):
        print(summary, flush=True)


def environment(dist: Dist, config: Any) -> dict[str, Any]:
    """What this side brought along, and the constants behind its model FLOPs and MFU."""
    precision = getattr(config, "precision", "float32")
    return {
        "torch": torch.__version__,
        "device": dist.device_name,
        "backend": backend_for(dist.device),
        "threads": torch.get_num_threads(),
        "flops_formula": flops.FLOPS_FORMULA,
        "peak_table": flops.PEAK_TABLE,
        "peak_flops_per_s": flops.peak_flops_per_s(dist.device_name, precision),
    }
