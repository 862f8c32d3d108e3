"""`paceline compare BASE..CANDIDATE`: ask for a run, follow it, exit with its verdict."""

import json
import math
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from service.cli.client import Client
from service.cli.exit_codes import ExitCode, exit_code
from service.config import Settings
from service.domain import Status, Verdict
from service.metrics import METRICS

_POLL_S = 1.0
_MARKS = {
    Verdict.REGRESSION: "[red]▲ regression[/]",
    Verdict.BROKEN: "[red]✗ broken[/]",
    Verdict.IMPROVEMENT: "[green]▼ improvement[/]",
    Verdict.NO_CHANGE: "[green]= no change[/]",
    Verdict.INCONCLUSIVE: "[yellow]? inconclusive[/]",
    Verdict.INVALID: "[yellow]! invalid[/]",
    Verdict.MISSING: "[yellow]– missing[/]",
    Verdict.INCOMPARABLE: "[yellow]≠ incomparable[/]",
}


def compare(
    revisions: Annotated[str, typer.Argument(metavar="BASE..CANDIDATE")],
    project: Annotated[
        str | None, typer.Option(help="Default: the project of this folder.")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="A suite of paceline.yml.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="A case; may be repeated.")] = None,
    cluster: Annotated[str, typer.Option()] = "local",
    max_pairs: Annotated[int | None, typer.Option(min=3, max=20)] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run to its end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run as JSON.")] = False,
) -> None:
    """Measure two revisions against each other.

    Exit codes with --watch, the first that applies: 2 usage, 4 not allowed, 5 run failed,
    1 regression or broken, 6 not comparable, 3 no verdict, 0 otherwise.
    """
    baseline, separator, candidate = revisions.partition("..")
    if not (separator and baseline and candidate) or candidate.startswith("."):
        print(f"paceline: {revisions!r} is not of the form BASE..CANDIDATE", file=sys.stderr)
        raise typer.Exit(ExitCode.USAGE)
    client = Client(Settings())
    body: dict[str, Any] = {
        "project": project or client.project_here(Path.cwd()),
        "baseline": baseline,
        "candidate": candidate,
        "cluster": cluster,
    }
    optional = {"suite": suite, "cases": case, "max_pairs": max_pairs}
    run = client.post("/runs", body | {k: v for k, v in optional.items() if v})
    console = Console(stderr=True)
    console.print(f"Run {run['id']}: {client.url}/ui/runs/{run['id']}")
    if watch:
        run = follow(client, run["id"], console)
    if as_json:
        print(json.dumps(run))
    elif watch:
        if run["comparisons"]:
            Console().print(verdict_table(run))
        print(run["headline"])
    if watch:
        raise typer.Exit(exit_code(Verdict(run["verdict"]) if run["verdict"] else None))


def follow(client: Client, run_id: str, console: Console) -> Any:
    """Follow a run until it has ended."""
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        while True:
            run = client.get(f"/runs/{run_id}")
            if Status(run["status"]).is_final:
                return run
            live.update(_progress(run))
            time.sleep(_POLL_S)


def _progress(run: dict[str, Any]) -> Table:
    """The estimates so far of the metrics that gate."""
    table = Table(title=f"{run['status']}: {run['headline']}", title_justify="left", box=None)
    for column in ("case", "metric", "pairs", "change", "95 % interval", "state"):
        table.add_column(column)
    for item in run["comparisons"]:
        if item["is_gating"]:
            to_go = item["pairs_to_go"]
            state = _MARKS[Verdict(item["verdict"])]
            if item["verdict"] == Verdict.INCONCLUSIVE:
                state = "open" if to_go is None else f"about {to_go} more pairs"
            table.add_row(*_figures(item), state)
    return table


def verdict_table(run: dict[str, Any]) -> Table:
    """The run's comparisons, worst first."""
    table = Table(box=None)
    for column in ("case", "metric", "pairs", "change", "95 % interval", "verdict", "gates"):
        table.add_column(column)
    for item in run["comparisons"]:
        mark = _MARKS[Verdict(item["verdict"])]
        table.add_row(*_figures(item), mark, "yes" if item["is_gating"] else "")
    return table


def _figures(item: dict[str, Any]) -> tuple[str, str, str, str, str]:
    interval = ""
    if item["low"] is not None and item["high"] is not None:
        interval = f"{_percent(item['low'])} … {_percent(item['high'])}"
    return (
        item["case"],
        METRICS[item["metric"]].title,
        str(item["num_pairs"]),
        _percent(item["effect"]),
        interval,
    )


def _percent(log_ratio: float | None) -> str:
    return "" if log_ratio is None else f"{100 * math.expm1(log_ratio):+.1f} %"
