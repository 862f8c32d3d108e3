"""`paceline schedule`: runs that are asked for again and again, by the clock."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table

from service.cli.client import Client
from service.cli.terminal import cell, minute, plain
from service.config import Settings
from service.domain import LOOKS, Intent

app = typer.Typer(
    name="schedule", help="Runs that are asked for by the clock.", no_args_is_help=True
)
_DEFAULT = dict.fromkeys(Intent, "last verdict") | {Intent.CALIBRATE: "itself"}
ProjectOption = Annotated[
    str | None, typer.Option("--project", help="Default: the project of this folder.")
]
NameArgument = Annotated[str, typer.Argument(help="Such as nightly.")]


@app.command("set")
def put(
    name: NameArgument,
    cron: Annotated[str, typer.Option(help="Five fields in UTC, as in '0 2 * * *'.")],
    candidate: Annotated[str, typer.Option(help="The branch to watch.")],
    baseline: Annotated[
        str | None,
        typer.Option(help="Default: the last commit for which it found a verdict."),
    ] = None,
    project: ProjectOption = None,
    suite: Annotated[str | None, typer.Option(help="A suite of paceline.yml.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="A case; may be repeated.")] = None,
    cluster: Annotated[str, typer.Option()] = "local",
    intent: Annotated[Intent | None, typer.Option(help="Default: gate.")] = None,
    max_pairs: Annotated[int | None, typer.Option(min=LOOKS[0], max=LOOKS[-1])] = None,
) -> None:
    """Set a schedule, new or in place of the one with that name."""
    client = Client(Settings())
    body: dict[str, Any] = {"cron": cron, "candidate": candidate, "cluster": cluster}
    optional: dict[str, Any] = {"baseline": baseline, "suite": suite, "cases": case}
    optional |= {"intent": intent, "max_pairs": max_pairs}
    body |= {key: value for key, value in optional.items() if value}
    row = client.put(_path(client, project, name), body)
    print(
        plain(
            f"{row['project']}/{row['name']} asks for a run next at {minute(row['next_at'])} UTC."
        )
    )


@app.command("list")
def show() -> None:
    """List the schedules, newest first."""
    columns = ("project", "name", "cron", "next (UTC)", "left out", "candidate", "baseline")
    table = Table(*columns, box=None)
    for row in Client(Settings()).items("/schedules"):
        asked = row["request"]
        baseline = asked["baseline"]["revision"] if asked["baseline"] else _DEFAULT[asked["intent"]]
        times = minute(row["next_at"]), minute(row["left_out_at"])
        texts = (row["project"], row["name"], row["cron"], *times)
        table.add_row(*map(cell, (*texts, asked["candidate"]["revision"], baseline)))
    Console().print(table)


@app.command("delete")
def delete(name: NameArgument, project: ProjectOption = None) -> None:
    """Take a schedule away; its runs stay."""
    client = Client(Settings())
    row = client.delete(_path(client, project, name))
    print(plain(f"{row['project']}/{row['name']} asks for no more runs."))


def _path(client: Client, project: str | None, name: str) -> str:
    project = project or client.project_here(Path.cwd())
    return f"/projects/{quote(project, safe='')}/schedules/{quote(name, safe='')}"
