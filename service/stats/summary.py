"""One trial in a few numbers, and how well its median is known."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MIN_WARMUP_STEPS = 10
_Z = 2.5758  # 99.5 % point of the normal, the choice of McKean & Schrader
_MIN_VALUES = 10


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Robust description of a sample, in its unit. `mad` is the median absolute deviation, raw."""

    n: int
    median: float
    p05: float
    p95: float
    mean: float
    mad: float


def num_warmup(num_steps: int, warmup_steps: int | None = None) -> int:
    """Steps to drop at the front: what the case says, else the first max(10 steps, 10 %)."""
    if warmup_steps is None:
        warmup_steps = max(MIN_WARMUP_STEPS, math.ceil(num_steps / 10))
    return min(warmup_steps, num_steps)


def summarize(values: ArrayLike) -> Summary:
    """Summary of at least one value."""
    x = np.asarray(values, dtype=float)
    if x.size == 0:
        raise ValueError("nothing to summarize: no value")
    p05, median, p95 = (float(q) for q in np.quantile(x, [0.05, 0.5, 0.95]))
    mad = float(np.median(np.abs(x - median)))
    return Summary(n=x.size, median=median, p05=p05, p95=p95, mean=float(x.mean()), mad=mad)


def median_standard_error(values: ArrayLike) -> float:
    """Standard error of the median of serially correlated values, in their order and unit.

    That of independent values, from the spread of the order statistics around the median (McKean &
    Schrader 1984, Comm. Stat. B 13), times the root of the long-run variance of the signs around
    it (Gastwirth & Rubin 1975, Annals of Statistics 3: the median sees a series only through these
    signs). Infinite below 10 values. A sort and about 2 n^(4/3) multiplications.
    """
    x = np.asarray(values, dtype=float)
    n = x.size
    if n < _MIN_VALUES:
        return math.inf
    ordered = np.sort(x)
    rank = max(round((n + 1) / 2 - _Z * math.sqrt(n / 4)), 1)
    independent = (ordered[n - rank] - ordered[rank - 1]) / (2 * _Z)
    return float(independent) * math.sqrt(_long_run_variance(np.sign(x - np.median(x))))


def _long_run_variance(signs: NDArray[np.float64]) -> float:
    """1 + 2 Σ weighted autocorrelations (Newey & West 1987), at least 1.

    A negative correlation is not used to claim more than independent values would show.
    """
    power = float(signs @ signs)
    if power == 0:
        return 1.0
    num_lags = math.ceil(2 * signs.size ** (1 / 3))
    total: float = sum(
        (1 - lag / (num_lags + 1)) * float(signs[lag:] @ signs[:-lag])
        for lag in range(1, num_lags + 1)
    )
    return max(1.0 + 2.0 * total / power, 1.0)
