"""Prints how often the sequential procedure errs, how soon it decides, and how wide it looks.

    python -m benchmarks.error_rates             # the figures of docs/method.md, about two minutes
    python -m benchmarks.error_rates 20000       # fewer replications

`judge` is `service.stats.compare` on arrays; tests/property holds the two equal.
"""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.domain import LOOKS, Rule
from service.stats.looks import ALPHA_CHANGE, ALPHA_NO_CHANGE
from service.stats.spending import crossing_alpha, levels
from service.stats.summary import median_standard_error

Array = NDArray[np.float64]

DELTA = Rule(min_effect=0.02, gate=True).log_min_effect
PAIR_SDS = (0.003, 0.01, 0.02, 0.027, 0.04)

INCONCLUSIVE, NO_CHANGE, REGRESSION, IMPROVEMENT = range(4)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Per replication and metric: what was decided, and after how many pairs (0: it was not)."""

    verdict: NDArray[np.int64]
    decided_at: NDArray[np.int64]

    def rate(self, verdict: int) -> float:
        return float((self.verdict == verdict).mean())

    def family_rate(self, verdict: int) -> float:
        """Share of replications in which any metric got this verdict."""
        return float((self.verdict == verdict).any(axis=1).mean())

    def mean_pairs(self, max_pairs: int = LOOKS[-1]) -> float:
        return float(np.where(self.decided_at == 0, max_pairs, self.decided_at).mean())


def judge(effects: Array, looks: tuple[int, ...] = LOOKS, delta: float = DELTA) -> Outcome:
    """Verdicts on effects, replications × metrics × pairs; all metrics gate, larger is worse."""
    verdict = np.zeros(effects.shape[:2], dtype=np.int64)
    decided_at = np.zeros_like(verdict)
    evidence = {change: np.ones(verdict.shape) for change in (REGRESSION, IMPROVEMENT)}
    for k, n in enumerate(looks):
        mean = effects[..., :n].mean(axis=-1)
        error = standard_error(effects[..., :n])
        is_open, sign = verdict == INCONCLUSIVE, {REGRESSION: 1, IMPROVEMENT: -1}
        for change, p in evidence.items():
            now = crossing_alpha(looks, k, special.stdtr(n - 1, -sign[change] * mean / error))
            evidence[change] = np.where(is_open, np.minimum(p, now), p)
        p_no_change = special.stdtr(n - 1, -(delta - np.abs(mean)) / error)
        is_small = np.abs(mean) < delta / 2
        verdict[is_open & is_small & (p_no_change <= levels(looks, ALPHA_NO_CHANGE)[k])] = NO_CHANGE
        for change, p in evidence.items():
            is_clear = holm(p) <= ALPHA_CHANGE
            is_open = verdict == INCONCLUSIVE
            verdict[is_open & is_clear & ~is_small & (sign[change] * mean > 0)] = change
        decided_at[(verdict != INCONCLUSIVE) & (decided_at == 0)] = n
    return Outcome(verdict=verdict, decided_at=decided_at)


def standard_error(effects: Array) -> Array:
    """Of the means along the last axis."""
    return effects.std(axis=-1, ddof=1) / np.sqrt(effects.shape[-1])


def holm(p: Array) -> Array:
    """Holm-adjusted p-values along the last axis."""
    order = np.argsort(p, axis=-1)
    steps = np.take_along_axis(p, order, axis=-1) * np.arange(p.shape[-1], 0, -1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(steps, axis=-1), axis=-1)
    return np.minimum(adjusted, 1.0)


def pairs(
    rng: np.random.Generator,
    replications: int,
    effects: tuple[float, ...],
    sd: float,
    correlation: float = 0.0,
    degrees: float = np.inf,
) -> Array:
    """Replications × metrics × 20 pairs around the true `effects`; t noise if `degrees` is finite.

    The t noise is scaled to the same SD.
    """
    shape = (replications, len(effects), LOOKS[-1])
    shared = rng.standard_normal((replications, 1, LOOKS[-1]))
    noise = np.sqrt(correlation) * shared
    noise = noise + np.sqrt(1 - correlation) * rng.standard_normal(shape)
    if np.isfinite(degrees):
        noise = noise * np.sqrt((degrees - 2) / rng.chisquare(degrees, shape))
    return np.asarray(effects)[None, :, None] + sd * noise


def print_levels(rng: np.random.Generator, replications: int) -> None:
    """Levels for t statistics; those of the normal limit are tried on t statistics too."""
    print("Nominal one-sided levels, and the share in % of unchanged series that ever cross them")
    effects = pairs(rng, replications, (0.0,), 1.0)[:, 0]
    for name, alpha in (("change", ALPHA_CHANGE), ("no_change", ALPHA_NO_CHANGE)):
        for scale, label in ((1, "t"), (100, "normal limit")):
            row = levels(tuple(scale * n for n in LOOKS), alpha)
            crossed = np.zeros(replications, dtype=bool)
            for n, level in zip(LOOKS, row, strict=True):
                mean, error = effects[:, :n].mean(axis=1), standard_error(effects[:, :n])
                crossed |= special.stdtr(n - 1, -mean / error) <= level
            figures = "".join(f"{level:9.4f}" for level in row)
            print(f"  {name:10} {label:13}{figures}{100 * crossed.mean():9.2f}")


def print_single(rng: np.random.Generator, replications: int) -> None:
    print("\nOne metric, δ = 2 %: share of verdicts in %, mean pairs until the decision")
    print("  noise   truth   SD %   regression  improvement  no_change  inconclusive  pairs")
    for degrees, noise in ((np.inf, "normal"), (4.0, "t(4)")):
        for truth, name in ((0.0, "0"), (DELTA / 2, "δ/2"), (DELTA, "δ"), (np.log(1.05), "5 %")):
            for sd in PAIR_SDS:
                outcome = judge(pairs(rng, replications, (truth,), sd, degrees=degrees))
                shares = [
                    100 * outcome.rate(verdict)
                    for verdict in (REGRESSION, IMPROVEMENT, NO_CHANGE, INCONCLUSIVE)
                ]
                print(
                    f"  {noise:7} {name:7} {100 * sd:4.1f}"
                    f"{shares[0]:12.2f}{shares[1]:13.2f}{shares[2]:11.2f}{shares[3]:14.2f}"
                    f"{outcome.mean_pairs():7.1f}"
                )


def print_family(rng: np.random.Generator, replications: int) -> None:
    print("\nThree gating metrics: share of runs in % with any false regression")
    print("  SD %   correlation   no metric regressed   one regressed by 5 %")
    for sd in PAIR_SDS:
        for correlation in (0.0, 0.9):
            null = judge(pairs(rng, replications, (0.0, 0.0, 0.0), sd, correlation))
            mixed = judge(pairs(rng, replications, (np.log(1.05), 0.0, 0.0), sd, correlation))
            others = (mixed.verdict[:, 1:] == REGRESSION).any(axis=1).mean()
            print(
                f"  {100 * sd:4.1f}{correlation:14.1f}"
                f"{100 * null.family_rate(REGRESSION):22.2f}{100 * others:23.2f}"
            )


def print_coverage(rng: np.random.Generator, replications: int) -> None:
    """The intervals scale with the spread, so that one SD stands for all."""
    effects = pairs(rng, replications, (0.0,), 1.0)[:, 0]
    misses = np.zeros(replications, dtype=bool)
    print("\nRepeated 95 % interval: share in % that cover the truth at every look so far")
    for n, level in zip(LOOKS, levels(LOOKS, ALPHA_CHANGE), strict=True):
        error = standard_error(effects[:, :n])
        misses |= np.abs(effects[:, :n].mean(axis=1)) > -special.stdtrit(n - 1, level) * error
        print(f"  {n:3} pairs {100 * (1 - misses.mean()):8.2f}")


def print_median_error(rng: np.random.Generator, replications: int) -> None:
    print("\nStandard error of a median: mean estimate over the SD of the medians")
    print("  AR(1)   100 values   200 values   1000 values")
    for coefficient in (-0.3, 0.0, 0.45, 0.7):
        ratios = []
        for n in (100, 200, 1000):
            series = autoregressive(rng, replications, n, coefficient)
            estimate = np.mean([median_standard_error(row) for row in series])
            ratios.append(estimate / np.median(series, axis=1).std())
        print(f"  {coefficient:5.2f}" + "".join(f"{ratio:13.2f}" for ratio in ratios))


def autoregressive(rng: np.random.Generator, rows: int, n: int, coefficient: float) -> Array:
    """Stationary normal AR(1) series of unit innovations, rows × n."""
    noise = rng.standard_normal((rows, n))
    series = np.empty_like(noise)
    series[:, 0] = noise[:, 0] / np.sqrt(1 - coefficient**2)
    for t in range(1, n):
        series[:, t] = coefficient * series[:, t - 1] + noise[:, t]
    return series


def main(replications: int = 200_000) -> None:
    rng = np.random.default_rng(20_261_130)
    print_levels(rng, replications)
    print_single(rng, replications)
    print_family(rng, replications // 2)
    print_coverage(rng, replications)
    print_median_error(rng, replications // 100)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
