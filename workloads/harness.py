"""The one timing harness: drives a workload's steps through Turns and writes its records.

A workload is a module with a frozen dataclass `Config`, which has `steps`, and a function
`run(config, dist)`: it sets up and returns an iterator. Advancing the iterator runs one step.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch

from workloads import flops
from workloads.dist import Dist, backend_for, clock_for, memory_of, process_group
from workloads.records import Records
from workloads.turns import StepSink, Turns

WARMUP_STEPS = 10
WARMUP_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Step:
    """What this rank did in one step. The loss stays on its device until the turn has ended."""

    tokens: int
    loss: torch.Tensor
    model_flops: int


class Workload(Protocol):
    """A plug-in: any module of training/, comm/ and the like."""

    __name__: str
    Config: type

    def run(self, config: Any, dist: Dist) -> Iterator[Step]: ...


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A rank's steady window in short, for people; verdicts are made from the records."""

    num_steps: int
    step_time_s: float
    tokens_per_s: float
    mfu: float | None

    def __str__(self) -> str:
        mfu = "unknown" if self.mfu is None else f"{self.mfu:.1%}"
        return (
            f"{self.num_steps} steps after warm-up: median {self.step_time_s * 1e3:.2f} ms, "
            f"{self.tokens_per_s:,.0f} tokens/s per rank, MFU {mfu}"
        )


class Meter:
    """Passes finished steps on to the records and keeps what the summary needs."""

    def __init__(self, records: StepSink) -> None:
        self._records = records
        self.times_s: list[float] = []
        self.tokens: list[int] = []
        self.model_flops: list[int] = []

    def step(self, index: int, time_s: float, **fields: Any) -> None:
        """One finished step, see Records.step."""
        self._records.step(index, time_s, **fields)
        self.times_s.append(time_s)
        self.tokens.append(fields["tokens"])
        self.model_flops.append(fields["model_flops"])

    def summary(self, peak_flops_per_s: float | None) -> Summary | None:
        """The steps after the first max(10, 10 %); None where there are none."""
        warmup = max(WARMUP_STEPS, round(WARMUP_SHARE * len(self.times_s)))
        times_s = self.times_s[warmup:]
        if not times_s:
            return None
        return Summary(
            num_steps=len(times_s),
            step_time_s=statistics.median(times_s),
            tokens_per_s=sum(self.tokens[warmup:]) / sum(times_s),
            mfu=flops.mfu(sum(self.model_flops[warmup:]) / sum(times_s), peak_flops_per_s),
        )


def measure(workload: Workload, config: Any) -> None:
    """Run a workload as this rank: environment, set-up, steps, memory, summary."""
    with Records() as records, process_group() as dist:
        name = workload.__name__.removeprefix("workloads.")
        facts = environment(dist, config)
        records.write("env", workload=name, config=asdict(config), **facts)
        records.phase("process_group_init", dist.init_time_s)

        start = time.perf_counter()
        steps = workload.run(config, dist)
        records.phase("setup", time.perf_counter() - start)

        meter = Meter(records)
        turns = Turns(config.steps, meter, **clock_for(dist.device))
        while turns.step():
            turns.note(**vars(next(steps)))
        if memory := memory_of(dist.device):
            records.memory(**memory)

    if dist.rank == 0 and (summary := meter.summary(facts["peak_flops_per_s"])):
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
