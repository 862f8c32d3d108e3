"""The pairs of one metric in order, and what each look made of them.

    │        ◇ look: mean and interval, beside the last pair it saw
+δ ─┼░░░░░░░░┼░░░░░░░░░░░░░░░░
    │  ○   ○ │  ○  pair: d
 0 ─┼────────┼────────────────
    │   ○    │        ◆ the look that decided
-δ ─┼░░░░░░░░░░░░░░░░░┼░░░░░░░
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dashboards import format
from dashboards.figures.theme import Plot, band, figure, rule
from dashboards.words import VERDICTS
from service.db.views import ComparisonView, LookView, PairView
from service.metrics import metric_named
from service.stats.words import count

_BESIDE = 0.3  # looks stand to the right of the last pair they saw
_HOVER = (
    "%{y:+.2f} % (%{customdata[1]:+.2f} % to %{customdata[2]:+.2f} %)"
    "<extra>%{customdata[0]}</extra>"
)


def plot(comparison: ComparisonView, pairs: Sequence[PairView]) -> Plot | None:
    """The figure with its words; None where no pair measured the metric."""
    measured = [pair for pair in pairs if comparison.metric in pair.effects]
    if not measured:
        return None
    num_invalid = sum(pair.invalid_reason is not None for pair in pairs)
    left_out = f" {count(num_invalid, 'invalid pair')} left out." if num_invalid else ""
    title = format.metric_title(comparison.metric)
    delta = format.delta(comparison.min_effect)
    return Plot(
        title=f"{title}: the pairs",
        caption="Each circle is one pair, candidate against baseline. A diamond is a look: mean "
        f"and 95 % interval of the pairs so far. Within the band (δ = {delta}) a change does not "
        f"matter.{left_out}",
        description=f"{title} of {count(len(measured), 'pair')}: mean change "
        f"{format.change(comparison.effect)}, 95 % interval "
        f"{format.interval(comparison.low, comparison.high)}, δ = {delta}.",
        figure=draw(comparison, measured),
    )


def draw(comparison: ComparisonView, pairs: Sequence[PairView]) -> go.Figure:
    """Figure of one metric's pairs, all of which measured it."""
    effects = np.array([pair.effects[comparison.metric] for pair in pairs])
    delta = math.log1p(comparison.min_effect)
    is_worse_up = metric_named(comparison.metric).worse_sign > 0
    return figure(
        [_pairs(pairs, effects), *_looks(comparison)],
        x="valid pairs",
        y="change in %, worse →" if is_worse_up else "← worse, change in %",
        xaxis={"range": [0.4, len(pairs) + 0.8], "dtick": 1 if len(pairs) <= 12 else 2},
        yaxis={"range": _range(effects, comparison, delta), "tickformat": "+.2~f"},
        shapes=[band("y", _percent(-delta), _percent(delta)), rule(0)],
        hovermode="closest",
    )


def _pairs(pairs: Sequence[PairView], effects: np.ndarray) -> go.Scatter:
    return go.Scatter(
        name="pair",
        x=np.arange(1, len(pairs) + 1),
        y=_percent(effects),
        customdata=[f"pair {pair.position + 1}" for pair in pairs],
        hovertemplate="%{y:+.2f} %<extra>%{customdata}</extra>",
        mode="markers",
        marker={
            "symbol": "circle-open",
            "size": 9,
            "color": "var(--pair)",
            "line": {"width": 1.75},
        },
    )


def _looks(comparison: ComparisonView) -> list[go.Scatter]:
    """Looks that left it open, the look that decided, and all pairs where there are more now."""
    still_open = [look for look in comparison.looks if look.verdict is None]
    traces = [_estimates("look", still_open, "diamond-open", "var(--ink)")] if still_open else []
    for look in comparison.looks:
        if look.verdict is not None:
            outcome = VERDICTS[look.verdict]
            name = f"{outcome.word}, after {look.num_pairs}"
            traces.append(_estimates(name, [look], "diamond", f"var(--{outcome.style})"))
    last = comparison.looks[-1] if comparison.looks else None
    if last and comparison.num_pairs > last.num_pairs and comparison.low is not None:
        traces.append(_estimates("all pairs", [comparison], "square-open", "var(--ink)"))
    return traces


def _estimates(
    name: str, items: Sequence[LookView | ComparisonView], symbol: str, color: str
) -> go.Scatter:
    """Means with their intervals, in per cent."""
    mean = _percent(np.array([_mean(item) for item in items]))
    low = _percent(np.array([item.low for item in items], dtype=float))
    high = _percent(np.array([item.high for item in items], dtype=float))
    return go.Scatter(
        name=name,
        x=[item.num_pairs + _BESIDE for item in items],
        y=mean,
        error_y={
            "array": high - mean,
            "arrayminus": mean - low,
            "color": color,
            "thickness": 2,
            "width": 5,
        },
        customdata=[
            (f"{name}, {item.num_pairs} pairs", *bounds)
            for item, *bounds in zip(items, low, high, strict=True)
        ],
        hovertemplate=_HOVER,
        mode="markers",
        marker={
            "symbol": symbol,
            "size": 11,
            "color": color,
            "line": {"width": 2, "color": color},
        },
    )


def _mean(item: LookView | ComparisonView) -> float:
    mean = item.mean if isinstance(item, LookView) else item.effect
    assert mean is not None
    return mean


def _range(effects: np.ndarray, comparison: ComparisonView, delta: float) -> list[float]:
    """What must be seen: the pairs, the band and the last interval; early ones may run out."""
    shown = [*effects, 1.3 * delta, -1.3 * delta]
    if comparison.low is not None and comparison.high is not None:
        shown += [comparison.low, comparison.high]
    low, high = _percent(min(shown)), _percent(max(shown))
    room = 0.06 * (high - low)
    return [low - room, high + room]


def _percent(log_ratio: Any) -> Any:
    """Log ratios, one or many, as changes in per cent."""
    return 100 * np.expm1(log_ratio)
