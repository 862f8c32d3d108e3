"""Every metric we know: its unit, which direction is better, and the rule that judges it."""

from dataclasses import dataclass
from enum import StrEnum


class Better(StrEnum):
    """Which way a metric should move."""

    LOWER = "lower"
    HIGHER = "higher"


class Method(StrEnum):
    """How two sides are compared on a metric."""

    PAIRED = "paired"  # noisy: sequential tests on the log ratio of pairs
    EXACT = "exact"  # near-deterministic: a threshold on the medians of solo trials
    RECORDED = "recorded"  # shown, never judged


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A measured quantity in SI units."""

    name: str
    title: str
    unit: str
    better: Better
    method: Method
    meaning: str

    @property
    def worse_sign(self) -> int:
        """+1 where a larger value is worse, -1 where a smaller one is."""
        return 1 if self.better is Better.LOWER else -1


_ALL = (
    Metric(
        name="step_time_s",
        title="Step time",
        unit="s",
        better=Better.LOWER,
        method=Method.PAIRED,
        meaning="Median over the steady window of the step time, the maximum over ranks.",
    ),
    Metric(
        name="tokens_per_s",
        title="Tokens per second",
        unit="tokens/s",
        better=Better.HIGHER,
        method=Method.PAIRED,
        meaning="Tokens of all ranks over the summed step times of the steady window.",
    ),
    Metric(
        name="steps_per_s",
        title="Steps per second",
        unit="steps/s",
        better=Better.HIGHER,
        method=Method.PAIRED,
        meaning="Steps over their summed times; stands in where not both sides report tokens.",
    ),
    Metric(
        name="peak_rss_bytes",
        title="Peak host memory",
        unit="bytes",
        better=Better.LOWER,
        method=Method.PAIRED,
        meaning="Highest resident set of a rank's process, the maximum over ranks.",
    ),
    Metric(
        name="peak_allocated_bytes",
        title="Peak device memory",
        unit="bytes",
        better=Better.LOWER,
        method=Method.EXACT,
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
        name="loss",
        title="Loss",
        unit="nats",
        better=Better.LOWER,
        method=Method.RECORDED,
        meaning="Mean training loss over the last tenth of the recorded steps, rank 0.",
    ),
)

METRICS = {metric.name: metric for metric in _ALL}
THROUGHPUT = ("tokens_per_s", "steps_per_s")
