"""What the files of a deployment say: commands, variables, paths; for tests that it is true."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
import yaml
from typer.core import TyperGroup

from service import cli
from tests.architecture.source import ROOT

COMPOSE = ROOT / "docker-compose.yml"
COMPOSE_ENV = ROOT / "deploy" / "compose.env.example"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
SYSTEMD_ENV = ROOT / "deploy" / "systemd" / "paceline.env.example"
INSTALLED = "/opt/paceline/.venv/bin/"

Argv = list[str]


def compose() -> dict[str, Any]:
    """docker-compose.yml as it stands, variables unfilled."""
    document: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return document


def services() -> dict[str, dict[str, Any]]:
    """Services of docker-compose.yml by name."""
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def ours() -> dict[str, dict[str, Any]]:
    """Those that run an image of ours."""
    return {name: service for name, service in services().items() if "build" in service}


def filled(text: str) -> str:
    """A text of docker-compose.yml as Compose reads it: defaults filled in, `$$` a dollar sign."""
    text = re.sub(r"(?<!\$)\$\{\w+(?::-([^}]*)|:\?[^}]*)?\}", lambda found: found[1] or "", text)
    return text.replace("$$", "$")


def instructions(stage: str) -> Iterator[tuple[str, str]]:
    """Instructions of a stage of the Dockerfile, and their arguments."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    current = ""
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            current = rest.rpartition(" AS ")[2]
        if current == stage:
            yield word, " ".join(rest.split())


def health_check(stage: str) -> Argv:
    """Command that asks a container of that image for its health."""
    (check,) = [rest for word, rest in instructions(stage) if word == "HEALTHCHECK"]
    argv: Argv = json.loads(check.partition("CMD ")[2])
    return argv


def commands() -> dict[str, Argv]:
    """Every command of ours that a deployment starts, by where it stands."""
    found = {}
    for name, service in ours().items():
        found[f"compose {name}"] = [filled(str(part)) for part in service["command"]]
    for stage in ("service", "worker"):
        (default,) = [rest for word, rest in instructions(stage) if word == "CMD"]
        found[f"image {stage}"] = json.loads(default)
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        program, *arguments = shlex.split(line)
        assert program == f"{INSTALLED}paceline"
        found[unit.name] = arguments
    return found


def documented_commands(file: Path) -> list[str]:
    """Commands of ours in a document, each from `paceline` to the end of its code."""
    text = file.read_text()
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    found = [re.search(r"(?:^|[ /])(paceline [a-z].*)", code) for code in [*lines, *spans]]
    return sorted({match[1].strip() for match in found if match})


def parse(argv: Argv) -> None:
    """Have the command line take a command without running it. Raises for one it does not know."""
    command, context = typer.main.get_command(cli.app), None
    arguments = list(argv)
    while isinstance(command, TyperGroup):
        context = command.context_class(command, parent=context)
        found = command.get_command(context, arguments.pop(0) if arguments else "")
        if found is None:
            raise LookupError(f"there is no such command: paceline {shlex.join(argv)}")
        command = found
    command.make_context(argv[0], arguments, parent=context)
