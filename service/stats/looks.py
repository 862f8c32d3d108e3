"""What the pairs of one metric say at a look: tests for a change and for its absence.

    -δ        -δ/2        0        δ/2         δ        mean d, worse to the right
─────┼──────────┼─────────┼─────────┼──────────┼─────
   improvement  │     no_change     │   regression
 if clearly < 0 │ if ±δ is excluded │ if clearly > 0
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from service.domain import Verdict
from service.stats.spending import levels

ALPHA_CHANGE = 0.025  # per direction, over the family of gating metrics
ALPHA_NO_CHANGE = 0.05
CHANGES = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


@dataclass(frozen=True, kw_only=True)
class Look:
    """An interim analysis. `mean`, `sd`, `low` and `high` are log ratios, candidate over baseline.

    The p-values are those of this look alone, the levels what it may spend. `verdict` is set on
    the look that decided.
    """

    num_pairs: int
    mean: float
    sd: float
    low: float
    high: float
    p_regression: float
    p_improvement: float
    p_no_change: float
    level_change: float
    level_no_change: float
    verdict: Verdict | None = None

    def p_value(self, change: Verdict) -> float:
        """p-value of one of CHANGES."""
        return self.p_regression if change is Verdict.REGRESSION else self.p_improvement


@dataclass(frozen=True, kw_only=True)
class Plan:
    """When a metric is looked at, which sign is worse, and δ as a log ratio."""

    looks: tuple[int, ...]
    worse_sign: int
    delta: float

    def look(self, effects: Sequence[float]) -> Look:
        """Look at these pairs, at least as many as the first look has."""
        n, mean = len(effects), mean_of(effects)
        variance = math.fsum((effect - mean) ** 2 for effect in effects) / (n - 1)
        return self.look_from(n, mean=mean, sd=math.sqrt(variance))

    def look_from(self, num_pairs: int, *, mean: float, sd: float) -> Look:
        """Look at `num_pairs` pairs of this mean and SD.

        Between two looks the levels are those of the last one. The interval inverts the test for a
        change: a repeated confidence interval (Jennison & Turnbull 1989, JRSS B 51), which covers
        the truth at all looks at once with 95 %.
        """
        k = bisect_right(self.looks, num_pairs) - 1
        level = levels(self.looks, ALPHA_CHANGE)[k]
        half_width = -float(special.stdtrit(num_pairs - 1, level)) * sd / num_pairs**0.5
        return Look(
            num_pairs=num_pairs,
            mean=mean,
            sd=sd,
            low=mean - half_width,
            high=mean + half_width,
            p_regression=_p_positive(self.worse_sign * mean, sd, num_pairs),
            p_improvement=_p_positive(-self.worse_sign * mean, sd, num_pairs),
            p_no_change=_p_positive(self.delta - abs(mean), sd, num_pairs),
            level_change=level,
            level_no_change=levels(self.looks, ALPHA_NO_CHANGE)[k],
        )

    def is_no_change(self, look: Look) -> bool:
        """Both one-sided tests exclude ±δ, and the mean is nearer to 0 than to either."""
        return abs(look.mean) < self.delta / 2 and look.p_no_change <= look.level_no_change

    def suspect(self, look: Look) -> Verdict | None:
        """The change the mean suggests; None where it is smaller than δ/2."""
        if abs(look.mean) < self.delta / 2:
            return None
        return Verdict.REGRESSION if self.worse_sign * look.mean > 0 else Verdict.IMPROVEMENT


def mean_of(effects: Sequence[float]) -> float:
    """Mean effect, the same to the last bit in any order of the pairs."""
    return math.fsum(effects) / len(effects)


def _p_positive(mean: float, sd: float, n: int) -> float:
    """p-value of the one-sided t test that a mean is positive.

    Without any spread it is the limit: 0 above zero, 1 below, one half at zero. Of the two
    one-sided tests of Schuirmann (1987) the one against the nearer bound has the larger p-value.
    """
    if sd == 0:
        return 0.5 if mean == 0 else float(mean < 0)
    return float(special.stdtr(n - 1, -mean / (sd / n**0.5)))
