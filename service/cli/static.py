"""`paceline static BASE..CANDIDATE`: count what a step would do, on any machine."""

import shlex
import subprocess
import sys
from typing import Annotated

import typer

from service.cli.compare import (
    CaseOption,
    ClusterOption,
    JsonOption,
    ProjectOption,
    SuiteOption,
    WatchOption,
    ask,
)
from service.cli.exit_codes import ExitCode
from service.cli.terminal import complain
from service.domain import Kind

_LAYOUTS = "Rank layouts of a model instead: '--world-size 64 --memory-bytes 80e9 --model 8b'."


def static(
    revisions: Annotated[str | None, typer.Argument(metavar="BASE..CANDIDATE")] = None,
    project: ProjectOption = None,
    suite: SuiteOption = None,
    case: CaseOption = None,
    cluster: ClusterOption = "local",
    watch: WatchOption = False,
    as_json: JsonOption = False,
    layouts: Annotated[str | None, typer.Option(metavar="OPTIONS", help=_LAYOUTS)] = None,
) -> None:
    """Count two revisions' static cases: FLOPs, collectives, bytes and peak memory of a step.

    Nothing is timed, and nothing needs the devices or the ranks of a case. Exit codes are those of
    `paceline compare`; a suite without a static case is a run that failed, 5.
    """
    if layouts is not None:
        raise typer.Exit(_rank(shlex.split(layouts)))
    if revisions is None:
        complain("Name the revisions, BASE..CANDIDATE, or give --layouts.")
        raise typer.Exit(ExitCode.USAGE)
    asked = {"project": project, "suite": suite, "cases": case, "cluster": cluster}
    ask(revisions, {**asked, "kind": Kind.STATIC.value}, watch=watch, as_json=as_json)


def _rank(options: list[str]) -> int:
    """In a process of its own: torch is not the command line's to load. Returns its exit code."""
    command = [sys.executable, "-m", "workloads.static.layouts", *options]
    return subprocess.run(command, check=False).returncode
