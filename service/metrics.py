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


@dataclass(frozen=True, kw_only=True)
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
    def worse_sign(self) -> int:
        """+1 where a larger value is worse, -1 where a smaller one is."""
        return 1 if self.better is Better.LOWER else -1


def _static(
    name: str, title: str, unit: str, meaning: str, method: Method = Method.COUNTED
) -> Metric:
    """A metric of static cases: fewer is better, and by default a single one more is a change."""
    return Metric(
        name=name,
        title=title,
        unit=unit,
        better=Better.LOWER,
        method=method,
        meaning=meaning,
        min_effect=0.0,
    )


_ALL = (
    Metric(
        name="step_time_s",
        title="Step time",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        is_per_step=True,
        meaning="Median over the steady window of the step time, the maximum over ranks.",
    ),
    Metric(
        name="tokens_per_s",
        title="Tokens per second",
        unit="tokens/s",
        better=Better.HIGHER,
        method=Method.PAIRED,
        like="step_time_s",
        meaning="Tokens of all ranks over the summed step times of the steady window.",
    ),
    Metric(
        name="steps_per_s",
        title="Steps per second",
        unit="steps/s",
        better=Better.HIGHER,
        method=Method.PAIRED,
        like="tokens_per_s",
        stands_in_for="tokens_per_s",
        meaning="Steps over their summed times; stands in where not both sides report tokens.",
    ),
    Metric(
        name="peak_rss_bytes",
        title="Peak host memory",
        unit="bytes",
        better=Better.LOWER,
        method=Method.PAIRED,
        min_effect=0.05,
        meaning="Highest resident set of a rank's process, the maximum over ranks.",
    ),
    Metric(
        name="peak_allocated_bytes",
        title="Peak device memory",
        unit="bytes",
        better=Better.LOWER,
        method=Method.EXACT,
        min_effect=0.001,
        meaning="Highest memory the CUDA allocator handed out, the maximum over ranks.",
    ),
    Metric(
        name="startup_time_s",
        title="Start-up time",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="From launch to the first step, the maximum over ranks.",
    ),
    Metric(
        name="process_group_init_s",
        title="Process group init",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Time to build the default process group, the maximum over ranks.",
    ),
    Metric(
        name="compile_time_s",
        title="Compile time",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="First forward and backward pass of a compiled model, the maximum over ranks.",
    ),
    Metric(
        name="data_wait_s",
        title="Data wait",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        is_per_step=True,
        meaning="Time in a step that waited for its batch, the maximum over ranks.",
    ),
    Metric(
        name="busbw_bytes_per_s",
        title="Bus bandwidth",
        unit="bytes/s",
        better=Better.HIGHER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Bus bandwidth of a collective by its size, as nccl-tests has it, slowest rank.",
    ),
    Metric(
        name="algbw_bytes_per_s",
        title="Algorithm bandwidth",
        unit="bytes/s",
        better=Better.HIGHER,
        method=Method.RECORDED,
        is_per_step=True,
        meaning="Message size over the time of a collective, by message size, of the slowest rank.",
    ),
    Metric(
        name="collective_time_s",
        title="Collective time",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        is_per_step=True,
        meaning="Time of one collective operation by message size, the maximum over ranks.",
    ),
    Metric(
        name="barrier_time_s",
        title="Barrier time",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Time of one barrier, the maximum over ranks.",
    ),
    Metric(
        name="overlapped_time_s",
        title="Overlapped time",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Time of matrix products and a collective side by side, the maximum over ranks.",
    ),
    Metric(
        name="compute_time_s",
        title="Compute time",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        is_per_step=True,
        meaning="Time of the same matrix products alone, the maximum over ranks.",
    ),
    Metric(
        name="communication_time_s",
        title="Communication time",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        is_per_step=True,
        meaning="Time of the same collective alone, the maximum over ranks.",
    ),
    Metric(
        name="overlap_ratio",
        title="Overlap",
        unit="ratio",
        better=Better.HIGHER,
        method=Method.RECORDED,
        is_per_step=True,
        meaning="Share of the shorter of compute and communication that the other hides.",
    ),
    Metric(
        name="flops_per_s",
        title="Rate",
        unit="FLOP/s",
        better=Better.HIGHER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Operations per second of a matrix product or of attention, by its shape.",
    ),
    Metric(
        name="copy_bytes_per_s",
        title="Copy bandwidth",
        unit="bytes/s",
        better=Better.HIGHER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Bytes copied between host and device per second, by size, of the slowest rank.",
    ),
    Metric(
        name="launch_time_s",
        title="Launch time",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Host time to start a tiny operator, the maximum over ranks.",
    ),
    Metric(
        name="checkpoint_save_s",
        title="Checkpoint save",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Time until a checkpoint is written, the maximum over ranks.",
    ),
    Metric(
        name="checkpoint_blocked_s",
        title="Checkpoint blocking",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Time for which saving keeps training from going on, the maximum over ranks.",
    ),
    Metric(
        name="checkpoint_load_s",
        title="Checkpoint load",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        min_effect=0.05,
        is_per_step=True,
        meaning="Time to load a checkpoint, the maximum over ranks.",
    ),
    Metric(
        name="checkpoint_bytes_per_s",
        title="Checkpoint bandwidth",
        unit="bytes/s",
        better=Better.HIGHER,
        method=Method.RECORDED,
        is_per_step=True,
        meaning="Bytes of a checkpoint over the time to write or read it, of the slowest rank.",
    ),
    Metric(
        name="loss",
        title="Loss",
        unit="nats",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Mean training loss over the last tenth of the recorded steps, rank 0.",
    ),
    Metric(
        name="cpu_time_s",
        title="CPU time",
        unit="s",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="CPU time of all processes of the trial, from launch to end.",
    ),
    Metric(
        name="foreign_cpu_ratio",
        title="Foreign CPU share",
        unit="ratio",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Share of the node's CPU time that all but the trial took.",
    ),
    Metric(
        name="gpu_busy_ratio",
        title="GPU utilisation",
        unit="ratio",
        better=Better.HIGHER,
        method=Method.RECORDED,
        meaning="Mean share of time in which a kernel ran, over GPUs and samples.",
    ),
    Metric(
        name="gpu_sm_clock_hz",
        title="GPU clock",
        unit="Hz",
        better=Better.HIGHER,
        method=Method.RECORDED,
        meaning="Median clock of the multiprocessors, over GPUs and samples.",
    ),
    Metric(
        name="gpu_power_w",
        title="GPU power",
        unit="W",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Mean power of a GPU, over GPUs and samples.",
    ),
    Metric(
        name="gpu_temperature_c",
        title="GPU temperature",
        unit="°C",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Highest temperature that a GPU reached.",
    ),
    Metric(
        name="gpu_throttled_ratio",
        title="GPU throttling",
        unit="ratio",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Share of samples in which power, heat or a fault held a GPU's clocks down.",
    ),
    Metric(
        name="gpu_ecc_errors",
        title="GPU memory errors",
        unit="errors",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Uncorrected ECC errors during the trial, over all GPUs.",
    ),
    _static("static_flops", "FLOPs", "FLOP", "Operations of a step of one rank."),
    _static(
        "static_collective_bytes",
        "Collective bytes",
        "bytes",
        "Bytes that one rank gives to the collectives of a step, by their kind.",
    ),
    _static(
        "static_num_collectives",
        "Collectives",
        "",
        "Collectives that one rank takes part in per step, by their kind.",
    ),
    _static(
        "static_peak_bytes",
        "Predicted peak memory",
        "bytes",
        "Most that the tensors of one rank hold at once.",
    ),
    _static(
        "static_held_bytes",
        "Held at the peak",
        "bytes",
        "What the tensors of one rank hold at their peak, by category.",
        Method.RECORDED,
    ),
    _static("static_num_graph_breaks", "Graph breaks", "", "Graph breaks of torch.compile."),
    _static(
        "static_num_operators",
        "Operators",
        "",
        "Operators that one rank calls per step.",
        Method.RECORDED,
    ),
)

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
