"""Every metric we know: its unit, which direction is better, and the rule that judges it.

A metric of many sizes is a family: `busbw_bytes_per_s@1048576` is its member for 1 MiB, judged by
itself, for a mean over sizes would say nothing of any. So is one of many kinds:
`static_num_collectives@all_gather`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Better(StrEnum):
    """Which way a metric should move."""

    LOWER = "lower"
    HIGHER = "higher"


class Method(StrEnum):
    """How two sides are compared on a metric."""

    PAIRED = "paired"  # noisy: sequential tests on the log ratio of pairs
    COUNTED = "counted"  # exact: any change is a change
    EXACT = "exact"  # near-deterministic: a threshold on the medians of solo trials
    RECORDED = "recorded"  # shown, never judged


@dataclass(frozen=True)
class Metric:
    """A measured quantity in SI units.

    `min_effect` is the default δ of one that is judged. `like` names the metric whose rule holds
    where the policy has none for this one; `stands_in_for` the one without which alone it is
    judged.
    """

    name: str
    title: str
    unit: str
    better: Better
    method: Method
    meaning: str
    min_effect: float = 0.02
    is_per_step: bool = False
    like: str | None = None
    stands_in_for: str | None = None

    @property
    def family(self) -> str:
        """The name without its parameter."""
        return self.name.partition("@")[0]

    @property
    def is_static(self) -> bool:
        """Whether it is counted without running anything: of static cases, and of them alone."""
        return self.name.startswith("static_")

    @property
    def is_told(self) -> bool:
        """Whether steps tell it, which those of some workloads do only."""
        return self.is_per_step and self.name != "step_time_s"

    @property
    def is_of_time(self) -> bool:
        """Whether it is a time or a rate, which a profile of the steps may explain."""
        return self.unit == "s" or self.unit.endswith("/s")

    @property
    def worse_sign(self) -> int:
        """+1 where a larger value is worse, -1 where a smaller one is."""
        return 1 if self.better is Better.LOWER else -1


# fmt: off
_ALL = (
    Metric("step_time_s", "Step time", "s", Better.LOWER, Method.PAIRED,
           "Median over the steady window of the step time, the maximum over ranks.",
           is_per_step=True),
    Metric("tokens_per_s", "Tokens per second", "tokens/s", Better.HIGHER, Method.PAIRED,
           "Tokens of all ranks over the summed step times of the steady window.",
           like="step_time_s"),
    Metric("steps_per_s", "Steps per second", "steps/s", Better.HIGHER, Method.PAIRED,
           "Steps over their summed times; stands in where not both sides report tokens.",
           like="tokens_per_s", stands_in_for="tokens_per_s"),
    Metric("peak_rss_bytes", "Peak host memory", "bytes", Better.LOWER, Method.PAIRED,
           "Highest resident set of a rank's process, the maximum over ranks.",
           min_effect=0.05),
    Metric("peak_allocated_bytes", "Peak device memory", "bytes", Better.LOWER, Method.EXACT,
           "Highest memory the CUDA allocator handed out, the maximum over ranks.",
           min_effect=0.001),
    Metric("peak_reserved_bytes", "Peak reserved memory", "bytes", Better.LOWER, Method.RECORDED,
           "Highest memory the CUDA allocator took from the device, the maximum over ranks."),
    Metric("allocator_retries", "Allocator retries", "", Better.LOWER, Method.RECORDED,
           "How often the CUDA allocator had to free its cache to go on, the maximum over ranks."),
    Metric("startup_time_s", "Start-up time", "s", Better.LOWER, Method.RECORDED,
           "From launch to the first step, the maximum over ranks."),
    Metric("process_group_init_s", "Process group init", "s", Better.LOWER, Method.RECORDED,
           "Time to build the default process group, the maximum over ranks."),
    Metric("compile_time_s", "Compile time", "s", Better.LOWER, Method.RECORDED,
           "First forward and backward pass of a compiled model, the maximum over ranks."),
    Metric("data_wait_s", "Data wait", "s", Better.LOWER, Method.RECORDED,
           "Time in a step that waited for its batch, the maximum over ranks.",
           is_per_step=True),
    Metric("busbw_bytes_per_s", "Bus bandwidth", "bytes/s", Better.HIGHER, Method.PAIRED,
           "Bus bandwidth of a collective by its size, as nccl-tests has it, slowest rank.",
           min_effect=0.05, is_per_step=True),
    Metric("algbw_bytes_per_s", "Algorithm bandwidth", "bytes/s", Better.HIGHER, Method.RECORDED,
           "Message size over the time of a collective, by message size, of the slowest rank.",
           is_per_step=True),
    Metric("collective_time_s", "Collective time", "s", Better.LOWER, Method.RECORDED,
           "Time of one collective operation by message size, the maximum over ranks.",
           is_per_step=True),
    Metric("barrier_time_s", "Barrier time", "s", Better.LOWER, Method.PAIRED,
           "Time of one barrier, the maximum over ranks.",
           min_effect=0.05, is_per_step=True),
    Metric("overlapped_time_s", "Overlapped time", "s", Better.LOWER, Method.PAIRED,
           "Time of matrix products and a collective side by side, the maximum over ranks.",
           min_effect=0.05, is_per_step=True),
    Metric("compute_time_s", "Compute time", "s", Better.LOWER, Method.RECORDED,
           "Time of the same matrix products alone, the maximum over ranks.",
           is_per_step=True),
    Metric("communication_time_s", "Communication time", "s", Better.LOWER, Method.RECORDED,
           "Time of the same collective alone, the maximum over ranks.",
           is_per_step=True),
    Metric("overlap_ratio", "Overlap", "ratio", Better.HIGHER, Method.RECORDED,
           "Share of the shorter of compute and communication that the other hides.",
           is_per_step=True),
    Metric("flops_per_s", "Rate", "FLOP/s", Better.HIGHER, Method.PAIRED,
           "Operations per second of a matrix product or of attention, by its shape.",
           min_effect=0.05, is_per_step=True),
    Metric("copy_bytes_per_s", "Copy bandwidth", "bytes/s", Better.HIGHER, Method.PAIRED,
           "Bytes copied between host and device per second, by size, of the slowest rank.",
           min_effect=0.05, is_per_step=True),
    Metric("launch_time_s", "Launch time", "s", Better.LOWER, Method.PAIRED,
           "Host time to start a tiny operator, the maximum over ranks.",
           min_effect=0.05, is_per_step=True),
    Metric("checkpoint_save_s", "Checkpoint save", "s", Better.LOWER, Method.PAIRED,
           "Time until a checkpoint is written, the maximum over ranks.",
           min_effect=0.05, is_per_step=True),
    Metric("checkpoint_blocked_s", "Checkpoint blocking", "s", Better.LOWER, Method.PAIRED,
           "Time for which saving keeps training from going on, the maximum over ranks.",
           min_effect=0.05, is_per_step=True),
    Metric("checkpoint_load_s", "Checkpoint load", "s", Better.LOWER, Method.PAIRED,
           "Time to load a checkpoint, the maximum over ranks.",
           min_effect=0.05, is_per_step=True),
    Metric("checkpoint_bytes_per_s", "Checkpoint rate", "bytes/s", Better.HIGHER, Method.RECORDED,
           "Bytes of a checkpoint over the time to write or read it, of the slowest rank.",
           is_per_step=True),
    Metric("loss", "Loss", "nats", Better.LOWER, Method.RECORDED,
           "Mean training loss over the last tenth of the recorded steps, rank 0."),
    Metric("cpu_time_s", "CPU time", "s", Better.LOWER, Method.RECORDED,
           "CPU time of all processes of the trial, from launch to end."),
    Metric("foreign_cpu_ratio", "Foreign CPU share", "ratio", Better.LOWER, Method.RECORDED,
           "Share of the node's CPU time that all but the trial took."),
    Metric("gpu_busy_ratio", "GPU utilisation", "ratio", Better.HIGHER, Method.RECORDED,
           "Mean share of time in which a kernel ran, over GPUs and samples."),
    Metric("gpu_sm_clock_hz", "GPU clock", "Hz", Better.HIGHER, Method.RECORDED,
           "Median clock of the multiprocessors, over GPUs and samples."),
    Metric("gpu_power_w", "GPU power", "W", Better.LOWER, Method.RECORDED,
           "Mean power of a GPU, over GPUs and samples."),
    Metric("gpu_temperature_c", "GPU temperature", "°C", Better.LOWER, Method.RECORDED,
           "Highest temperature that a GPU reached."),
    Metric("gpu_throttled_ratio", "GPU throttling", "ratio", Better.LOWER, Method.RECORDED,
           "Share of samples in which power, heat or a fault held a GPU's clocks down."),
    Metric("gpu_ecc_errors", "GPU memory errors", "errors", Better.LOWER, Method.RECORDED,
           "Uncorrected ECC errors during the trial, over all GPUs."),
    Metric("static_flops", "FLOPs", "FLOP", Better.LOWER, Method.COUNTED,
           "Operations of a step of one rank; of a pipeline, of one rank of each place.",
           min_effect=0.0),
    Metric("static_collective_bytes", "Collective bytes", "bytes", Better.LOWER, Method.COUNTED,
           "Bytes that the counted ranks give to the collectives of a step, by their kind.",
           min_effect=0.0),
    Metric("static_num_collectives", "Collectives", "", Better.LOWER, Method.COUNTED,
           "Collectives that the counted ranks take part in per step, by their kind.",
           min_effect=0.0),
    Metric("static_peak_bytes", "Predicted peak memory", "bytes", Better.LOWER, Method.COUNTED,
           "Most that the tensors of a rank hold at once.",
           min_effect=0.0),
    Metric("static_held_bytes", "Held at the peak", "bytes", Better.LOWER, Method.RECORDED,
           "What the tensors of that rank hold at their peak, by category.",
           min_effect=0.0),
    Metric("static_num_graph_breaks", "Graph breaks", "", Better.LOWER, Method.COUNTED,
           "Graph breaks of torch.compile.",
           min_effect=0.0),
    Metric("static_bubble_ratio", "Pipeline bubble", "ratio", Better.LOWER, Method.COUNTED,
           "Share of a step that the ranks of a pipeline idle, in unit times of its schedule.",
           min_effect=0.0),
    Metric("static_num_operators", "Operators", "", Better.LOWER, Method.RECORDED,
           "Operators that the counted ranks call per step.",
           min_effect=0.0),
)
# fmt: on

METRICS = {metric.name: metric for metric in _ALL}
_ORDER = list(METRICS)
_PARAMETER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def find(name: str) -> Metric | None:
    """The metric of that name, a member of a family too; None for a name we do not know."""
    family, at, parameter = name.partition("@")
    whole = METRICS.get(family)
    if whole is None or not at:
        return whole
    if not _PARAMETER.fullmatch(parameter):
        return None
    return replace(whole, name=name, title=f"{whole.title}, {_shown(parameter)}")


def metric_named(name: str) -> Metric:
    """The metric of that name. Raises KeyError for one we do not know."""
    found = find(name)
    if found is None:
        raise KeyError(name)
    return found


def covered_by(name: str) -> set[str]:
    """What is not missing where that metric is there: itself, its family, whom it stands in for."""
    found = metric_named(name)
    return {name, found.family} | ({found.stands_in_for} if found.stands_in_for else set())


def ordered(names: Iterable[str]) -> list[str]:
    """Metrics in the order of the table, members of a family by size or name, each once."""

    def place(name: str) -> tuple[int, int, str]:
        family, _, parameter = name.partition("@")
        size = int(parameter) if parameter.isdecimal() else 0
        return _ORDER.index(family), size, parameter

    return sorted(set(names), key=place)


def _shown(parameter: str) -> str:
    """`1 MiB` for 1048576, `all gather` for all_gather."""
    if not parameter.isdecimal():
        return parameter.replace("_", " ")
    size = int(parameter)
    for unit_size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size and size % unit_size == 0:
            return f"{size // unit_size} {unit}"
    return f"{size} B"
