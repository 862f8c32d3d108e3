"""What all figures share. Colours are CSS variables, which the page resolves, light or dark."""

from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from markupsafe import Markup

_AXIS: dict[str, Any] = {
    "gridcolor": "var(--grid)",
    "linecolor": "var(--line)",
    "tickcolor": "var(--line)",
    "zeroline": False,
    "automargin": True,
    "title": {"standoff": 8},
}
_JSON_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure with the words around it; `description` is for those who do not see it."""

    title: str
    caption: str
    description: str
    figure: go.Figure

    @property
    def json(self) -> Markup:
        """The figure as JSON that may stand inside a script element."""
        text: str = self.figure.to_json()
        return Markup(text.translate(_JSON_IN_HTML))


def figure(traces: list[go.Scatter], *, x: str, y: str, **layout: Any) -> go.Figure:
    """A figure in our style with titled axes. Takes `xaxis`, `yaxis` and `shapes` besides."""
    return go.Figure(
        traces,
        layout={
            "template": "none",
            "font": {"family": "var(--font)", "size": 12, "color": "var(--soft)"},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "legend": {
                "orientation": "h",
                "y": 1.02,
                "yanchor": "bottom",
                "x": 0,
                "xanchor": "left",
            },
            "hoverlabel": {
                "bgcolor": "var(--paper)",
                "bordercolor": "var(--line)",
                "font": {"color": "var(--ink)"},
            },
            **layout,
            "xaxis": _axis(x, layout.get("xaxis", {})),
            "yaxis": _axis(y, layout.get("yaxis", {})),
        },
    )


def _axis(title: str, given: dict[str, Any]) -> dict[str, Any]:
    return {**_AXIS, "title": {**_AXIS["title"], "text": title}, **given}


def band(axis: str, low: float, high: float) -> dict[str, Any]:
    """A shaded stretch of an axis, `x` or `y`, over the whole of the other one."""
    other = "y" if axis == "x" else "x"
    return {
        "type": "rect",
        f"{axis}0": low,
        f"{axis}1": high,
        f"{other}ref": "paper",
        f"{other}0": 0,
        f"{other}1": 1,
        "fillcolor": "var(--band)",
        "line": {"width": 0},
        "layer": "below",
    }


def rule(y: float) -> dict[str, Any]:
    """A horizontal line over the whole figure."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": y,
        "y1": y,
        "line": {"color": "var(--soft)", "width": 1},
        "layer": "below",
    }
