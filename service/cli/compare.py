"""`paceline compare BASE..CANDIDATE`: ask for a run, follow it, exit with its verdict."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dashboards.words import VERDICTS
from service.cli.client import Client
from service.cli.exit_codes import ExitCode, exit_code
from service.cli.terminal import cell, complain, mark, plain
from service.config import Settings
from service.domain import LOOKS, Status, Verdict
from service.errors import ServiceUnreachable
from service.metrics import METRICS
from service.stats.words import percent

_POLL_S = 1.0
_PATIENCE_S = (1, 2, 4, 8, 16, 30, 60, 60, 60)  # four minutes: a restart, with its migration


def compare(
    revisions: Annotated[str, typer.Argument(metavar="BASE..CANDIDATE")],
    project: Annotated[
        str | None, typer.Option(help="Default: the project of this folder.")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="A suite of paceline.yml.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="A case; may be repeated.")] = None,
    cluster: Annotated[str, typer.Option()] = "local",
    max_pairs: Annotated[int | None, typer.Option(min=LOOKS[0], max=LOOKS[-1])] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run to its end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run as JSON.")] = False,
) -> None:
    """Measure two revisions against each other.

    Exit codes with --watch, the first that applies: 2 usage, 4 not allowed, 5 the run or the
    command failed, 1 regression or broken, 6 not comparable, 3 no verdict, 0 otherwise.
    """
    baseline, separator, candidate = revisions.partition("..")
    if not (separator and baseline and candidate) or candidate.startswith("."):
        complain(f"{revisions!r} is not of the form BASE..CANDIDATE.")
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
    print(f"Run {run['id']}: {client.url}/ui/runs/{run['id']}", file=sys.stderr)
    if watch:
        run = follow(client, run["id"], Console(stderr=True))
    if as_json:
        print(json.dumps(run))
    elif watch:
        if run["comparisons"]:
            Console().print(verdict_table(run))
        print(plain(run["headline"]))
    if watch:
        raise typer.Exit(exit_code(Verdict(run["verdict"]) if run["verdict"] else None))


def follow(
    client: Client, run_id: str, console: Console, *, sleep: Callable[[float], None] = time.sleep
) -> Any:
    """A run once it has ended. Raises ServiceUnreachable where the service stays away."""
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        while True:
            run = _patient_get(client, f"/runs/{run_id}", console, sleep)
            if Status(run["status"]).is_final:
                return run
            live.update(_progress(run))
            sleep(_POLL_S)


def _patient_get(
    client: Client, path: str, console: Console, sleep: Callable[[float], None]
) -> Any:
    """JSON of a GET: the run goes on while the service restarts, and so must who waits for it."""
    for wait_s in _PATIENCE_S:
        try:
            return client.get(path)
        except ServiceUnreachable as error:
            console.print(cell(f"{error} Asking again in {wait_s} s."), soft_wrap=True)
            sleep(wait_s)
    return client.get(path)


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
            table.add_row(*_figures(item), state)
    return table


def verdict_table(run: dict[str, Any]) -> Table:
    """The run's comparisons, worst first."""
    table = Table(box=None)
    for column in ("case", "metric", "pairs", "change", "95 % interval", "verdict", "gates"):
        table.add_column(column)
    for item in run["comparisons"]:
        judged = mark(VERDICTS[item["verdict"]])
        table.add_row(*_figures(item), judged, "yes" if item["is_gating"] else "")
    return table


def _figures(item: dict[str, Any]) -> tuple[Text, ...]:
    interval = ""
    if item["low"] is not None and item["high"] is not None:
        interval = f"{percent(item['low'])} to {percent(item['high'])}"
    change = "" if item["effect"] is None else percent(item["effect"])
    title = METRICS[item["metric"]].title
    return tuple(map(cell, (item["case"], title, str(item["num_pairs"]), change, interval)))
