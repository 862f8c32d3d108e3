"""Several metrics at once: p-values adjusted for the whole family, in the order given.

Both are monotone: no adjusted value rises when a p-value falls. So they stay valid on sequential
p-values, which only fall, at whatever look they are read.
"""

import numpy as np
from numpy.typing import ArrayLike


def holm(p_values: ArrayLike) -> list[float]:
    """Holm-adjusted p-values: rejecting those at most α errs anywhere with chance at most α.

    Valid whatever the dependence. Holm 1979, Scandinavian Journal of Statistics 6.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return [float(value) for value in np.minimum(adjusted, 1.0)]


def benjamini_hochberg(p_values: ArrayLike) -> list[float]:
    """BH-adjusted p-values: of those at most q, a share of at most q is false on average.

    Valid under independence and positive dependence. Benjamini & Hochberg 1995, JRSS B 57.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")[::-1]  # largest first
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    return [float(value) for value in np.minimum(adjusted, 1.0)]
