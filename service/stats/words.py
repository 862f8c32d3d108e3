"""Numbers as people read them, for the reasons of a verdict."""

import math
from collections.abc import Sequence

_BINARY = (1024, ("", "Ki", "Mi", "Gi", "Ti"), "B")
_DECIMAL = (1000, ("", "k", "M", "G", "T", "P"))


def percent(log_ratio: float) -> str:
    """A log ratio as a signed change: `+10.2 %`, with two decimals below 1 %."""
    return fraction_percent(math.expm1(log_ratio), sign="+")


def fraction_percent(fraction: float, sign: str = "") -> str:
    """A fraction as a percentage: `2.0 %`."""
    value = 100 * fraction
    text = f"{value:{sign}.{1 if abs(value) >= 0.995 else 2}f} %"
    return text if any(digit in text for digit in "123456789") else "0.00 %"


def p_value(p: float) -> str:
    """`p = 0.013`; `p < 0.0001` where more digits would say nothing."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def count(number: int, noun: str) -> str:
    """`1 pair`, `3 pairs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(numbers: Sequence[int]) -> str:
    """`3, 5 and 8`."""
    *head, last = [str(number) for number in numbers]
    return f"{', '.join(head)} and {last}" if head else last


def quantity(value: float, unit: str) -> str:
    """A count in a unit for people: `65`, `27.96 GiB`, `215.2 TFLOP`; `0.2727` of a ratio."""
    if unit == "ratio":
        return f"{value:.4g}"
    if not unit:
        return f"{value:,.0f}"
    base, prefixes, short = _BINARY if unit == "bytes" else (*_DECIMAL, unit)
    prefix, *larger = prefixes
    while larger and abs(value) >= base:
        value /= base
        prefix, *larger = larger
    return f"{value:.4g} {prefix}{short}" if abs(value) < 1e4 else f"{value:,.0f} {prefix}{short}"


def quantities(before: float, after: float, unit: str) -> tuple[str, str]:
    """Two counts; to the last digit where rounding would hide that they differ."""
    told = quantity(before, unit), quantity(after, unit)
    if before != after and told[0] == told[1]:
        if unit == "ratio":
            return f"{before}", f"{after}"
        return f"{before:,.0f} {unit}", f"{after:,.0f} {unit}"
    return told


def change(difference: float, unit: str) -> str:
    """A difference of counts: `+1`, `-12.5 MiB`."""
    return f"{'+' if difference > 0 else ''}{quantity(difference, unit)}"


def mebibytes(num_bytes: float, sign: str = "") -> str:
    """`64.0 MiB`."""
    return f"{num_bytes / 2**20:{sign},.1f} MiB"


def milliseconds(seconds: float, sign: str = "") -> str:
    """`3.1 ms`."""
    return f"{1e3 * seconds:{sign},.1f} ms"
