"""`paceline compare BASE..CANDIDATE`: ask for a run, follow it, exit with its verdict."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dashboards.words import VERDICTS
from service.cli.client import Client
from service.cli.exit_codes import ExitCode, exit_code
from service.cli.follow import figures, follow
from service.cli.terminal import complain, mark, plain
from service.config import Settings
from service.domain import LOOKS, Intent, Verdict


def compare(
    revisions: Annotated[str, typer.Argument(metavar="BASE..CANDIDATE")],
    project: Annotated[
        str | None, typer.Option(help="Default: the project of this folder.")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="A suite of paceline.yml.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="A case; may be repeated.")] = None,
    cluster: Annotated[str, typer.Option()] = "local",
    intent: Annotated[
        Intent | None, typer.Option(help="Default: gate. `calibrate` may name one revision twice.")
    ] = None,
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
    optional = {"suite": suite, "cases": case, "intent": intent, "max_pairs": max_pairs}
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


def verdict_table(run: dict[str, Any]) -> Table:
    """The run's comparisons, worst first."""
    table = Table(box=None)
    for column in ("case", "metric", "pairs", "change", "95 % interval", "verdict", "gates"):
        table.add_column(column)
    for item in run["comparisons"]:
        judged = mark(VERDICTS[item["verdict"]])
        table.add_row(*figures(item), judged, "yes" if item["is_gating"] else "")
    return table
