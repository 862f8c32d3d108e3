"""`paceline runs`: what was asked lately, and what came of it."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dashboards.format import revision
from dashboards.words import STATUSES, VERDICTS
from service.cli.client import Client
from service.cli.terminal import cell, mark
from service.config import Settings
from service.domain import Role


def runs(
    project: Annotated[str | None, typer.Option(help="Only runs of this project.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the API's answer.")] = False,
) -> None:
    """List runs, newest first."""
    parameters: dict[str, Any] = {"limit": limit} | ({"project": project} if project else {})
    page = Client(Settings()).get("/runs", **parameters)
    if as_json:
        print(json.dumps(page))
        return
    table = Table("run", "project", "baseline..candidate", "state", "answer", box=None)
    for run in page["items"]:
        sides = "..".join(revision(run[role]["sha"], run[role]["requested"]) for role in Role)
        outcome = VERDICTS[run["verdict"]] if run["verdict"] else STATUSES[run["status"]]
        project_name, answer = cell(run["project"]), cell(run["headline"])
        table.add_row(run["id"], project_name, cell(sides), mark(outcome), answer)
    Console().print(table)
