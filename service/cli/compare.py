"""`paceline compare BASE..CANDIDATE`: ask for a run, follow it, exit with its verdict."""

import json
import sys
from collections.abc import Mapping
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

RevisionsArgument = Annotated[str, typer.Argument(metavar="BASE..CANDIDATE")]
ProjectOption = Annotated[str | None, typer.Option(help="Default: the project of this folder.")]
SuiteOption = Annotated[str | None, typer.Option(help="A suite of paceline.yml.")]
CaseOption = Annotated[list[str] | None, typer.Option(help="A case; may be repeated.")]
ClusterOption = Annotated[str, typer.Option()]
WatchOption = Annotated[bool, typer.Option("--watch", help="Follow the run to its end.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the run as JSON.")]


def compare(
    revisions: RevisionsArgument,
    project: ProjectOption = None,
    suite: SuiteOption = None,
    case: CaseOption = None,
    cluster: ClusterOption = "local",
    intent: Annotated[
        Intent | None, typer.Option(help="Default: gate. `calibrate` may name one revision twice.")
    ] = None,
    max_pairs: Annotated[int | None, typer.Option(min=LOOKS[0], max=LOOKS[-1])] = None,
    watch: WatchOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure two revisions against each other.

    Exit codes with --watch, the first that applies: 2 usage, 4 not allowed, 5 the run or the
    command failed, 1 regression or broken, 6 not comparable, 3 no verdict, 0 otherwise.
    """
    asked = {"project": project, "suite": suite, "cases": case, "cluster": cluster}
    ask(
        revisions,
        {**asked, "intent": intent, "max_pairs": max_pairs},
        watch=watch,
        as_json=as_json,
    )


def ask(revisions: str, asked: Mapping[str, Any], *, watch: bool, as_json: bool) -> None:
    """Ask for a run and print it; whoever watches it exits with its verdict.

    What is None or empty in `asked` is left to the service, but for the project, which is then that
    of this folder.
    """
    baseline, separator, candidate = revisions.partition("..")
    if not (separator and baseline and candidate) or candidate.startswith("."):
        complain(f"{revisions!r} is not of the form BASE..CANDIDATE.")
        raise typer.Exit(ExitCode.USAGE)
    client = Client(Settings())
    body = {key: value for key, value in asked.items() if value}
    body |= {"baseline": baseline, "candidate": candidate}
    if "project" not in body:
        body["project"] = client.project_here(Path.cwd())
    run = client.post("/runs", body)
    print(f"Run {run['id']}: {client.url}/ui/runs/{run['id']}", file=sys.stderr)
    if watch:
        run = follow(client, run["id"], Console(stderr=True))
    if as_json:
        print(json.dumps(run))
    elif watch:
        if run["comparisons"]:
            Console().print(verdict_table(run))
        for line in [*operators(run), *causes(run)]:
            print(plain(line))
        print(plain(run["headline"]))
    if watch:
        raise typer.Exit(exit_code(Verdict(run["verdict"]) if run["verdict"] else None))


def operators(run: Mapping[str, Any]) -> list[str]:
    """A line for each case whose calls of operators differ: what to look for in the diff."""
    found = {
        item["case"]: [f"{name}: {before} -> {after}" for name, before, after in calls]
        for item in run["comparisons"]
        if (calls := item["parameters"].get("operators"))
    }
    return [f"{case}: {', '.join(calls)}" for case, calls in found.items()]


def causes(run: Mapping[str, Any]) -> list[str]:
    """A line for each case that got slower: why, or why that is not known."""
    return [
        f"{item['case']}: {item['cause'] or 'cause unknown. ' + item['reason']}"
        for item in run["diagnoses"]
    ]


def verdict_table(run: dict[str, Any]) -> Table:
    """The run's comparisons, worst first."""
    table = Table(box=None)
    for column in ("case", "metric", "pairs", "change", "95 % interval", "verdict", "gates"):
        table.add_column(column)
    for item in run["comparisons"]:
        judged = mark(VERDICTS[item["verdict"]])
        table.add_row(*figures(item), judged, "yes" if item["is_gating"] else "")
    return table
