"""What a look may spend: nominal levels of sequential t tests, and p-values valid at any look.

A test repeated at every look is wrong more often than its level says. Lan & DeMets (1983) let each
look spend a share of α, by a function of the information seen so far (here n / n_max):

    looks     3        5           8              12                   20 pairs
              |--------|-----------|--------------|--------------------|
    spent     .23 α    .36 α       .52 α          .71 α                α

We spend it with their Pocock-type function. A look's level is the p-value that uses up its share,
given that no earlier look crossed. Those probabilities come from the recursion of Armitage,
McPherson & Rowe (1969; Jennison & Turnbull 2000, ch. 19), on t statistics rather than on a Brownian
motion: at 3 pairs the two differ, and normal-theory levels would spend 12 % more than α.

The recursion for t (Jennison & Turnbull 1991) rests on two facts about n normal differences x with
mean 0. The t statistic is a function of u = Σx / sqrt(n Σx²), a cosine. And Σx² is independent of
the u of every look so far (Basu's theorem), so that u is a Markov chain. With a block of m more
pairs, whose own cosine is w,

    u' = [ sqrt(n) u cos φ + sqrt(m) w sin φ ] / sqrt(n + m),    sin² φ ~ Beta(m/2, n/2).
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Array = NDArray[np.float64]

# The chain lives on a grid of normal scores: z where a standard normal has the p-value of u.
_EDGES = np.linspace(-7.0, 7.0, 241)
_MIDDLES = (_EDGES[1:] + _EDGES[:-1]) / 2
_TAIL = special.ndtr(-_EDGES)
_BLOCK_NODES = 40  # quadrature nodes for w
_ANGLES = np.linspace(0.0, np.pi / 2, 20_001)
_LOG_ALPHAS = np.linspace(np.log(1e-6), np.log(0.5), 200)  # to invert the levels in
_TINY = 1e-300


def spent(fraction: ArrayLike, alpha: ArrayLike) -> Array:
    """α spent when a `fraction` of the information is seen: α ln(1 + (e - 1) t), Pocock-type.

    Lan & DeMets 1983, Biometrika 70, their second function.
    """
    return np.asarray(alpha) * np.log1p((np.e - 1) * np.asarray(fraction))


@lru_cache(maxsize=256)
def levels(looks: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """One-sided nominal levels, one per look, of a sequential t test with total level `alpha`."""
    return tuple(float(level) for level in _levels(looks, np.array([alpha]))[:, 0])


def sequential_p(looks: tuple[int, ...], observed: Sequence[float]) -> float:
    """Smallest α at which the test has crossed by now: valid at any look, never rises.

    `observed` holds the one-sided p-values of the looks so far.
    """
    return min((float(crossing_alpha(looks, k, p)) for k, p in enumerate(observed)), default=1.0)


def crossing_alpha(looks: tuple[int, ...], k: int, p: ArrayLike) -> Array:
    """α whose level at look `k` (from 0) equals `p`: never below 1e-6, and 1 instead of over .5."""
    log_p = np.log(np.maximum(p, _TINY))
    return np.exp(np.interp(log_p, _log_levels(looks)[k], _LOG_ALPHAS, right=0.0))


@lru_cache(maxsize=64)
def _log_levels(looks: tuple[int, ...]) -> Array:
    """Log levels, looks × _LOG_ALPHAS."""
    return np.log(_levels(looks, np.exp(_LOG_ALPHAS)))


def _levels(looks: tuple[int, ...], alphas: Array) -> Array:
    """Levels, looks × alphas.

    `tail` is the chance that a look is reached and its score lies above each edge. The look takes
    its share off the top; the rest is `alive` and moves on.
    """
    _check(looks)
    shares = np.diff(spent(np.array(looks)[:, None] / looks[-1], alphas), axis=0, prepend=0.0)
    tail = np.repeat(_TAIL[:, None], len(alphas), axis=1)
    found = np.empty_like(shares)
    for k, share in enumerate(shares):
        found[k] = [_level(share[j], tail[:, j]) for j in range(len(alphas))]
        if k + 1 < len(looks):
            alive = -np.diff(np.maximum(tail, share), axis=0)
            tail = _transition(looks[k], looks[k + 1]) @ alive
    return found


def _level(share: float, tail: Array) -> float:
    """p-value of the score above which `tail` is `share`."""
    log_tail = np.log(np.maximum(tail, _TINY))
    return float(np.exp(np.interp(np.log(share), log_tail[::-1], np.log(_TAIL)[::-1])))


@lru_cache(maxsize=256)
def _transition(n: int, n_next: int) -> Array:
    """Chance that the next score exceeds an edge, edges × cells the present score is in."""
    m = n_next - n
    start = np.sqrt(n) * _cosine(_MIDDLES, n)
    bound = np.sqrt(n_next) * _cosine(_EDGES, n_next)[:, None]
    angle_cdf = special.betainc(m / 2, n / 2, np.sin(_ANGLES) ** 2)
    chance = np.zeros((len(_EDGES), len(_MIDDLES)))
    for w, weight in zip(*_block_cosines(m), strict=True):
        # start cos φ + side sin φ = reach cos(φ - ψ): above the bound within an arc around ψ.
        side = np.sqrt(m) * w
        psi = np.arctan2(side, start)
        arc = np.arccos(np.clip(bound / np.hypot(start, side), -1, 1))
        upper = np.interp(np.clip(psi + arc, 0, np.pi / 2), _ANGLES, angle_cdf)
        lower = np.interp(np.clip(psi - arc, 0, np.pi / 2), _ANGLES, angle_cdf)
        chance += weight * (upper - lower)
    return chance


def _cosine(z: Array, n: int) -> Array:
    """u of the t statistic, n - 1 degrees of freedom, whose p-value is that of the score z."""
    t = -np.sign(z) * special.stdtrit(n - 1, special.ndtr(-np.abs(z)))
    return np.asarray(t / np.sqrt(t**2 + n - 1))


def _block_cosines(m: int) -> tuple[Array, Array]:
    """Nodes and weights for the cosine of m normal values: density ∝ (1 - w²)^((m - 3) / 2)."""
    if m == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    nodes, weights = special.roots_jacobi(_BLOCK_NODES, (m - 3) / 2, (m - 3) / 2)
    return nodes, weights / weights.sum()


def _check(looks: tuple[int, ...]) -> None:
    if not looks or looks[0] < 2 or any(a >= b for a, b in pairwise(looks)):
        raise ValueError(f"looks must rise from at least 2 pairs, not {looks}")
