"""Follows a run to its end, through restarts of the service."""

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dashboards.words import VERDICTS
from service.cli.client import Client
from service.cli.terminal import cell, mark
from service.domain import Status, Verdict
from service.errors import ServiceUnreachable
from service.metrics import Method, metric_named
from service.stats.words import count, percent, quantity

_PAUSE_S = 1
_PATIENCE_S = (1, 2, 4, 8, 16, 30, 60, 60, 60)  # four minutes: a restart, with its migration


def follow(
    client: Client, run_id: str, console: Console, *, sleep: Callable[[float], None] = time.sleep
) -> Any:
    """A run once it has ended. Raises ServiceUnreachable where the service stays away.

    The run goes on while the service restarts, and so must who waits for it.
    """
    seen, num_failures = None, 0
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        while True:
            try:
                with client.events(f"/runs/{run_id}/events", seen) as events:
                    num_failures = 0
                    for event in events:
                        seen, run = event.id, event.json()
                        if Status(run["status"]).is_final:
                            return client.get(f"/runs/{run_id}")
                        live.update(_progress(run))
                sleep(_PAUSE_S)  # it ended without the run's end, as after some minutes all do
            except ServiceUnreachable as error:
                if num_failures == len(_PATIENCE_S):
                    raise
                wait_s = _PATIENCE_S[num_failures]
                num_failures += 1
                console.print(cell(f"{error} Asking again in {wait_s} s."), soft_wrap=True)
                sleep(wait_s)


def _progress(run: dict[str, Any]) -> Table:
    """The estimates so far of the metrics that gate."""
    title = cell(f"{run['status']}: {run['headline']}")
    table = Table(title=title, title_justify="left", box=None)
    for column in ("case", "metric", "pairs", "change", "95 % interval", "state"):
        table.add_column(column)
    for item in run["comparisons"]:
        if item["is_gating"]:
            to_go = item["pairs_to_go"]
            state = mark(VERDICTS[item["verdict"]])
            if item["verdict"] == Verdict.INCONCLUSIVE:
                state = cell("open" if to_go is None else f"about {to_go} more pairs")
            table.add_row(*figures(item), state)
    return table


def figures(item: dict[str, Any]) -> tuple[Text, ...]:
    """A comparison's cells: case, metric, pairs or trials, change, interval."""
    interval = ""
    if item["low"] is not None and item["high"] is not None:
        interval = f"{percent(item['low'])} to {percent(item['high'])}"
    metric = metric_named(item["metric"])
    num_pairs = item["num_pairs"]
    repeated = str(num_pairs) if metric.method is Method.PAIRED else count(num_pairs, "trial")
    return tuple(map(cell, (item["case"], metric.title, repeated, _change(item), interval)))


def _change(item: dict[str, Any]) -> str:
    """The effect; of a count from or to nothing, which has no ratio, both counts."""
    if item["effect"] is not None:
        return percent(item["effect"])
    metric = metric_named(item["metric"])
    names = ("baseline_value", "candidate_value")
    values = [item[name] for name in names if item.get(name) is not None]
    if metric.method is not Method.COUNTED or len(values) < len(names):
        return ""
    return " -> ".join(quantity(value, metric.unit) for value in values)
