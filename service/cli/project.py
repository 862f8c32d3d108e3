"""`paceline project`: the repositories that are tracked."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.client import Client
from service.cli.terminal import plain
from service.config import Settings

app = typer.Typer(name="project", help="The repositories that are tracked.", no_args_is_help=True)


@app.command("add")
def add(
    source: Annotated[str, typer.Argument(help="A git repository: a folder or a URL.")],
    name: Annotated[str | None, typer.Option(help="Default: the last part of the source.")] = None,
) -> None:
    """Track a repository."""
    source = _located(source)
    name = name or source.rstrip("/").rpartition("/")[2].removesuffix(".git")
    project = Client(Settings()).post("/projects", {"name": name, "source": source})
    print(plain(f"{project['name']} is tracked: {project['source']}"))


@app.command("list")
def show() -> None:
    """List the tracked repositories."""
    for project in Client(Settings()).items("/projects"):
        print(plain(f"{project['name']}\t{project['source']}"))


def _located(source: str) -> str:
    """The absolute path of a folder; what is none, or cannot be one, as it is."""
    try:
        folder = Path(source).expanduser()
        return str(folder.resolve()) if folder.is_dir() else source
    except (OSError, RuntimeError):  # a name too long for any file; the home of nobody
        return source
