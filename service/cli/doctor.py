"""`paceline doctor`: is everything there, and what to do where it is not."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from runners.isolation import trial_account
from service.cli.client import Client, RequestFailed
from service.config import Settings
from service.doctor import machine, stores
from service.doctor.finding import Finding, Level, failure, ok, warning, worst_first
from service.errors import Refused, ServiceUnreachable

_MARKS = {
    Level.FAILURE: "[red]✗ failure[/]",
    Level.WARNING: "[yellow]! warning[/]",
    Level.OK: "[green]✓ ok[/]",
}


def doctor(
    measuring: Annotated[
        bool, typer.Option(help="Check what measuring needs; an API machine does not measure.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this machine and what it talks to. Exits with 1 where something fails."""
    findings = worst_first(list(examine(Settings(), measuring=measuring)))
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        Console().print(_table(findings))
    raise typer.Exit(int(any(finding.level is Level.FAILURE for finding in findings)))


def examine(settings: Settings, *, measuring: bool) -> Iterator[Finding]:
    """Every check on the machine the settings are for."""
    yield from stores.database(settings)
    yield stores.broker(settings)
    yield stores.artifacts(settings)
    yield from stores.disks(settings)
    if measuring:
        yield machine.git()
        yield machine.torchrun()
        yield machine.guard()
        yield trial_user(settings)
    yield service(Client(settings))


def trial_user(settings: Settings) -> Finding:
    """Whose rights a trial has: a user's of its own, or the worker's."""
    try:
        account = trial_account(settings)
    except Refused as error:
        return failure("trial user", str(error), remedy="See docs/operations.md, Trials.")
    if account.name:
        return ok("trial user", f"Set-up and trials run as {account.name}.")
    if settings.is_standalone:
        return ok("trial user", "Trials run as the user who starts the service (standalone mode).")
    return warning(
        "trial user",
        "Trials run as the worker's user and can read its files.",
        remedy="Run the worker as root with PACELINE_TRIAL_USER, or measure what you trust.",
    )


def service(client: Client) -> Finding:
    """The service answers, is ready, and accepts who we are."""
    try:
        client.get("/readyz")
        client.get("/projects")
    except ServiceUnreachable:
        remedy = "Start it (`paceline up`, `paceline api`), or set PACELINE_URL to where it is."
        return warning("service", f"Nothing answers at {client.url}.", remedy=remedy)
    except RequestFailed as error:
        is_denied = error.status in (401, 403)
        remedy = "Ask for a token that is valid and may read." if is_denied else "See its log."
        return failure("service", f"{client.url} answers {error.status}: {error}", remedy=remedy)
    return ok("service", f"{client.url} is ready and accepts our requests.")


def _table(findings: list[Finding]) -> Table:
    table = Table("check", "state", "what was seen", "remedy", box=None)
    for finding in findings:
        table.add_row(finding.check, _MARKS[finding.level], finding.detail, finding.remedy)
    return table
