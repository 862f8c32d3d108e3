"""Values as people read them: the place where units are converted."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from service.metrics import Method, metric_named
from service.stats import words

NOTHING = "–"
count = words.count
_MINUS = re.compile(r"-(?=\d[\d.]* %)")
_SHA_DIGITS = 10
_SHA = re.compile(r"[0-9a-f]{40,64}")
_ACRONYMS = {"cpu", "cpus", "gpu", "gpus", "nccl", "cuda"}


def significant(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, trailing zeros kept: `12.30`, `12,345`."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def seconds(value: float) -> str:
    """A short time: `1.234 s`, `12.34 ms`, `12.34 µs`."""
    scale, unit = second_unit(value)
    return f"{significant(value * scale)} {unit}"


def seconds_more(difference: float) -> str:
    """A difference of short times: `+1.234 ms`, `−12.34 µs`, `0 s`."""
    sign = "+" if difference > 0 else "\u2212" if difference < 0 else ""
    return f"{sign}{seconds(abs(difference))}"


def second_unit(value: float) -> tuple[float, str]:
    """What to multiply seconds of this size by, and the unit that gives."""
    if value >= 1 or value == 0:
        return 1.0, "s"
    return (1e3, "ms") if value >= 1e-3 else (1e6, "µs")


def num_bytes(value: float) -> str:
    """A size: `1.500 GiB`, `12.34 MiB`, `812 B`."""
    for size, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(value) >= size:
            return f"{significant(value / size)} {unit}"
    return f"{value:.0f} B"


def with_prefix(value: float, unit: str) -> str:
    """A quantity in thousands: `1.980 GHz`, `184.6 GB/s`, `50.00 Hz`."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{significant(value / size)} {prefix}{unit}"
    return f"{significant(value)} {unit}"


def metric_value(name: str, value: float | None) -> str:
    """A metric's value in a unit for people."""
    if value is None:
        return NOTHING
    metric = metric_named(name)
    if metric.method is Method.COUNTED:
        return words.quantity(value, metric.unit)
    in_words = _BY_UNIT.get(metric.unit)
    return in_words(value) if in_words else f"{significant(value)} {metric.unit}"


_BY_UNIT: Mapping[str, Callable[[float], str]] = {
    "s": seconds,
    "bytes": num_bytes,
    "Hz": lambda value: with_prefix(value, "Hz"),
    "bytes/s": lambda value: with_prefix(value, "B/s"),
    "FLOP/s": lambda value: with_prefix(value, "FLOP/s"),
    "ratio": words.fraction_percent,
    "°C": lambda value: f"{value:.0f} °C",
    "errors": lambda value: count(round(value), "error"),
}


def metric_title(name: str) -> str:
    """`Step time` for `step_time_s`."""
    return metric_named(name).title


def typeset(text: str) -> str:
    """A sentence with true minus signs, and per cent signs and δ that stay beside their number."""
    return _MINUS.sub("\u2212", text).replace(" %", "\u00a0%").replace("δ = ", "δ\u00a0=\u00a0")


def replicates(name: str, number: int) -> str:
    """How often a metric was measured: `5 pairs`; of what is not paired, `3 trials a side`."""
    if metric_named(name).method is not Method.PAIRED:
        return f"{words.count(number, 'trial')} a side"
    return words.count(number, "pair")


def is_confidence_interval(name: str) -> bool:
    """Whether a metric's interval is one; under the exact method it is the span of the trials."""
    return metric_named(name).method is Method.PAIRED


def change(log_ratio: float | None) -> str:
    """A log ratio as a signed percentage."""
    return NOTHING if log_ratio is None else typeset(words.percent(log_ratio))


def interval(low: float | None, high: float | None) -> str:
    """Two log ratios as a range: `+1.2 % to +3.4 %`."""
    if low is None or high is None:
        return NOTHING
    return typeset(f"{words.percent(low)} to {words.percent(high)}")


def spread(sd: float) -> str:
    """The standard deviation of a log ratio as a percentage."""
    return typeset(words.fraction_percent(sd))


def delta(min_effect: float) -> str:
    """The smallest effect that matters: `2 %`."""
    return typeset(f"{100 * min_effect:g} %")


def probability(p: float) -> str:
    """A p-value or a level: `0.013`, `< 0.0001`."""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def duration(value_s: float) -> str:
    """A long time: `12.3 s`, `4 min 05 s`, `1 h 12 min`, `2 d 3 h`."""
    if value_s < 59.95:
        return f"{value_s:.1f} s"
    minutes, rest = divmod(round(value_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def age(then: datetime, now: datetime) -> str:
    """How long ago: `just now`, `5 min ago`, `3 h ago`, `12 d ago`, then the date."""
    passed_s = (now - then).total_seconds()
    if passed_s < 60:
        return "just now"
    for size, unit, limit in ((60, "min", 60), (3600, "h", 48), (86400, "d", 60)):
        if passed_s < size * limit:
            return f"{int(passed_s // size)} {unit} ago"
    return f"{then.astimezone(UTC):%Y-%m-%d}"


def moment(then: datetime) -> str:
    """A point in time, in UTC."""
    return f"{then.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def short(sha: str) -> str:
    """The first digits of a commit, enough to name it."""
    return sha[:_SHA_DIGITS]


def revision(sha: str | None, requested: str) -> str:
    """A side's commit in short; until it is known, what was asked for."""
    if sha is None and not _SHA.fullmatch(requested):
        return requested
    return short(sha or requested)


def fact_name(name: str) -> str:
    """`GPU driver` for `gpu_driver`."""
    parts = name.removesuffix("_bytes").split("_")
    text = " ".join(part.upper() if part in _ACRONYMS else part for part in parts)
    return text.replace("CPUS", "CPUs").replace("GPUS", "GPUs")


def fact(name: str, value: Any) -> str:
    """A fact of an environment or of a side, as text."""
    if value is None or value == "" or value == [] or value == {}:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and name.endswith("_bytes"):
        return num_bytes(value)
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value))
    return str(value)
