"""The step times of both sides of one pair, with the warm-up shaded."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboards import format
from dashboards.figures.downsample import LIMIT, outline
from dashboards.figures.theme import Plot, band, figure
from service.db.views import Trace
from service.domain import Role

_DASH = {Role.BASELINE: "solid", Role.CANDIDATE: "dash"}
_SYMBOL = {Role.BASELINE: "circle", Role.CANDIDATE: "diamond"}
_NUM_MARKED = 400  # up to so many steps each one has its own mark
_MUCH = 2.0  # warm-up steps longer than so many times the longest other one leave the frame


def plot(trace: Trace) -> Plot | None:
    """The figure with its words; None where a side recorded no step after its warm-up."""
    steps = {role: np.asarray(trace.steps.get(role, ()), dtype=float) for role in Role}
    steady = {role: values[trace.num_warmup_steps :] for role, values in steps.items()}
    if any(values.size == 0 for values in steady.values()):
        return None
    medians = {role: float(np.median(values)) for role, values in steady.items()}
    longest = max(len(values) for values in steps.values())
    return Plot(
        title=f"Step times of pair {trace.pair + 1}",
        caption=_caption(trace, steps, steady),
        description=f"Step times of pair {trace.pair + 1} over {longest} steps; medians "
        + " and ".join(f"{role} {format.seconds(medians[role])}" for role in Role)
        + ".",
        figure=draw(steps, medians, trace.num_warmup_steps, _top(steps, steady)),
    )


def draw(
    steps: Mapping[Role, NDArray[np.float64]],
    medians: Mapping[Role, float],
    num_warmup_steps: int,
    top: float,
) -> go.Figure:
    """Figure of step times in seconds up to `top`, with the median of the steady window."""
    scale, unit = format.second_unit(max(medians.values()))
    bottom = min(float(values.min()) for values in steps.values())
    room = 0.06 * (top - bottom)
    traces = [_steps(role, steps[role] * scale) for role in Role]
    traces += [
        _median(role, medians[role] * scale, (num_warmup_steps, len(steps[role]) - 1), unit)
        for role in Role
    ]
    last = max(len(values) for values in steps.values()) - 1
    return figure(
        traces,
        x="step",
        y=f"step time in {unit}",
        xaxis={"range": [-0.5, last + 0.5]},
        yaxis={"range": [(bottom - room) * scale, (top + room) * scale]},
        shapes=[band("x", -0.5, num_warmup_steps - 0.5)] if num_warmup_steps else [],
        hovermode="closest",
    )


def _steps(role: Role, values: NDArray[np.float64]) -> go.Scatter:
    shown = outline(values)
    return go.Scatter(
        name=f"{role} step",
        x=shown,
        y=values[shown],
        hovertemplate="step %{x}: %{y:.4~g}<extra>" + role + "</extra>",
        mode="markers+lines" if values.size <= _NUM_MARKED else "lines",
        opacity=0.65,
        line={"width": 0.75, "color": f"var(--{role})"},
        marker={"size": 4, "symbol": _SYMBOL[role]},
        showlegend=False,
    )


def _median(role: Role, value: float, ends: tuple[int, int], unit: str) -> go.Scatter:
    return go.Scatter(
        name=f"{role}, median {format.significant(value)} {unit}",
        x=ends,
        y=(value, value),
        hoverinfo="skip",
        mode="lines",
        line={"width": 2.5, "color": f"var(--{role})", "dash": _DASH[role]},
    )


def _top(
    steps: Mapping[Role, NDArray[np.float64]], steady: Mapping[Role, NDArray[np.float64]]
) -> float:
    """The upper end of the frame: everything, unless the warm-up would flatten the rest."""
    highest = max(float(values.max()) for values in steps.values())
    settled = max(float(values.max()) for values in steady.values())
    return highest if highest <= _MUCH * settled else settled


def _caption(
    trace: Trace,
    steps: Mapping[Role, NDArray[np.float64]],
    steady: Mapping[Role, NDArray[np.float64]],
) -> str:
    """What is timed, what is left out, and where the picture is not the whole."""
    parts = ["A step's time is the maximum over ranks."]
    if trace.num_warmup_steps:
        parts.append(
            f"The first {trace.num_warmup_steps} steps, shaded, are warm-up and not judged."
        )
    highest = max(float(values.max()) for values in steps.values())
    if highest > _top(steps, steady):
        parts.append(
            f"Warm-up steps of up to {format.seconds(highest)} lie above the frame; a double click "
            "shows them."
        )
    parts += _thinned(list(steps.values()))
    return " ".join(parts)


def _thinned(traces: Sequence[NDArray[np.float64]]) -> list[str]:
    longest = max(values.size for values in traces)
    if longest <= LIMIT:
        return []
    return [
        f"Of {longest:,} steps the lowest and highest of each stretch are drawn: {LIMIT:,} points."
    ]
