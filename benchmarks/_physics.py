"""What a GPU can do at most, and whether figures of trials on it can be true."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from workloads.flops import mfu, peak_flops_per_s

# Memory bandwidth in bytes/s by a pattern for the device's name, first match wins: the vendors'
# data sheets, of a card's variants that its name does not tell apart the fastest.
_BANDWIDTHS = (
    (r"\bMIG\b", None),
    (r"\bA100.*40GB\b", 1.555e12),  # NVIDIA A100, data sheet of June 2021
    (r"\bA100\b", 2.039e12),
    (r"\bH100 NVL\b", 3.9e12),  # NVIDIA H100, data sheet
    (r"\bH100 PCIe\b", 2.0e12),
    (r"\bH100 80GB HBM3\b", 3.35e12),
    (r"\bH200\b", 4.8e12),  # NVIDIA H200, data sheet
    (r"\bB200\b", 8.0e12),  # NVIDIA DGX B200, data sheet: 64 TB/s by eight
    (r"\bL40S\b", 0.864e12),  # NVIDIA L40S, data sheet
    (r"\bMI300X\b", 5.3e12),  # AMD Instinct MI300X, data sheet
    (r"\bMI325X\b", 6.0e12),  # AMD Instinct MI325X, data sheet
)


@dataclass(frozen=True)
class Check:
    """A figure, its bounds and whether it lies within them; one that is unknown does not."""

    name: str
    value: float | None
    low: float
    high: float

    @property
    def is_right(self) -> bool:
        return self.value is not None and self.low < self.value < self.high


@dataclass(frozen=True, kw_only=True)
class Card:
    """A GPU: its name and memory. What it can do at most is None where we do not know it."""

    name: str
    memory_bytes: int

    @property
    def flops_per_s(self) -> float | None:
        """Dense peak in bfloat16."""
        return peak_flops_per_s(self.name, "bfloat16")

    @property
    def memory_bytes_per_s(self) -> float | None:
        return next((rate for name, rate in _BANDWIDTHS if re.search(name, self.name)), None)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a trial says: medians of its steady metrics, and all its steps by two clocks."""

    medians: Mapping[str, float]
    event_time_s: float
    wall_time_s: float
    model_flops_per_s: float | None = None


def checks_of(workload: str, figures: Figures, card: Card) -> list[Check]:
    """Figures of a trial on a card, with what they must lie between."""
    by_clock = figures.event_time_s / figures.wall_time_s if figures.wall_time_s else None
    memory = figures.medians["peak_allocated_bytes"] / card.memory_bytes
    checks = [
        *_OWN[workload.partition(".")[0]](figures, card),
        Check("event time over wall clock", by_clock, 0.5, 1.05),
        Check("peak allocated, share of the card", memory, 0.0, 1.0),
    ]
    return [Check(f"{workload}: {c.name}", c.value, c.low, c.high) for c in checks]


def _training(figures: Figures, card: Card) -> Iterator[Check]:
    rate = figures.model_flops_per_s
    yield Check("step time, s", figures.medians["step_time_s"], 0.0, 10.0)
    yield Check("MFU", None if rate is None else mfu(rate, card.flops_per_s), 0.0, 1.0)


def _micro(figures: Figures, card: Card) -> Iterator[Check]:
    """Below 1 % of the peak a product was not made by what the peak is of, or not timed right."""
    for name, value in figures.medians.items():
        family, _, size = name.partition("@")
        if family == "flops_per_s":
            yield Check(f"{size}, share of peak", _share(value, card.flops_per_s), 0.01, 1.0)
        elif family == "copy_bytes_per_s":
            # Each byte is read and written.
            moved = _share(2 * value, card.memory_bytes_per_s)
            yield Check(f"{size}, share of bandwidth", moved, 0.1, 1.0)
        elif family == "launch_time_s":
            yield Check("launch time, s", value, 1e-7, 1e-3)


def _share(value: float, most: float | None) -> float | None:
    return None if most is None else value / most


_OWN: Mapping[str, Callable[[Figures, Card], Iterator[Check]]] = {
    "training": _training,
    "micro": _micro,
}
