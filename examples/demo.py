"""`make demo`: three commits of a real trainer, each against its base; three verdicts.

Starts the service as `paceline up` does, turns examples/tinylm into a git repository, asks for the
three comparisons over HTTP, follows them, prints the verdicts and writes an HTML report. Exits 0
only if the refactor is cleared, the slow commit is caught in time and the leak in memory.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from examples.tinylm.make_repository import make_repository
from runners.child import bound
from service.cli.client import Client
from service.cli.compare import verdict_table
from service.cli.follow import follow
from service.config import Settings
from service.errors import ServiceUnreachable

ROOT = Path(__file__).parents[1]
TIME = {"step_time_s", "tokens_per_s"}
MEMORY = {"peak_rss_bytes"}
# revision -> metrics that must regress (at least one of them) and the only ones that may
EXPECTED: dict[str, set[str]] = {"refactor": set(), "slow": TIME, "leak": MEMORY}

_START_S = 60.0


def main() -> None:
    """Run the demo; the exit code says whether every verdict is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".paceline" / "demo")
    arguments = parser.parse_args()
    console = Console()
    folder: Path = arguments.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    revisions = make_repository(folder / "tinylm")
    started = time.monotonic()
    with service(folder) as client:
        console.print(f"Paceline runs at {client.url}/ui while the demo measures.\n")
        source = {"name": "tinylm", "source": str(folder / "tinylm")}
        client.post("/projects", source)
        runs = {name: _measure(client, revisions, name, console) for name in EXPECTED}
    report = _report(folder, [run["id"] for run in runs.values()])
    outcome = {name: judged(run, EXPECTED[name]) for name, run in runs.items()}
    minutes = (time.monotonic() - started) / 60
    for name, word in outcome.items():
        console.print(f"{name:10s} {word:13s} {runs[name]['headline']}", soft_wrap=True)
    again = f"PACELINE_DATA_DIR={folder} {ROOT}/.venv/bin/paceline up"
    console.print(f"\n{minutes:.1f} minutes. Report: {report}", soft_wrap=True)
    console.print(f"Browse it again: {again}", soft_wrap=True)
    sys.exit(0 if set(outcome.values()) == {"right"} else 1)


def judged(run: dict[str, Any], expected: set[str]) -> str:
    """`right`, `wrong`, or `inconclusive` where a verdict is lacking but none is wrong."""
    gating = [item for item in run["comparisons"] if item["is_gating"]]
    regressed = {i["metric"] for i in gating if i["verdict"] in ("regression", "broken")}
    has_improved = any(item["verdict"] == "improvement" for item in gating)
    if has_improved or not regressed <= expected:
        return "wrong"
    if not regressed and _lacks_verdict(run):
        return "inconclusive"
    return "right" if bool(regressed) == bool(expected) else "wrong"


def _lacks_verdict(run: dict[str, Any]) -> bool:
    return run["verdict"] in (None, "inconclusive", "invalid", "missing", "incomparable")


def _measure(
    client: Client, revisions: dict[str, str], name: str, console: Console
) -> dict[str, Any]:
    """One comparison against the base, followed to its end."""
    body = {"project": "tinylm", "baseline": revisions["base"], "candidate": revisions[name]}
    run = client.post("/runs", body)
    console.print(f"[bold]base..{name}[/]  {client.url}/ui/runs/{run['id']}")
    finished: dict[str, Any] = follow(client, run["id"], console)
    console.print(verdict_table(finished))
    console.print(f"{finished['headline']}\n", soft_wrap=True)
    return finished


def _report(folder: Path, run_ids: list[str]) -> Path:
    """The runs as one HTML file that needs no service."""
    path = folder / "report.html"
    command = ["report", *run_ids, "--output", str(path), "--title", "Paceline demo: tinylm"]
    subprocess.run(
        [sys.executable, "-m", "service.cli", *command],
        cwd=ROOT,
        env={**os.environ, "PACELINE_DATA_DIR": str(folder)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return path


@contextmanager
def service(folder: Path) -> Iterator[Client]:
    """The service on a free port, with its data in `folder`; it is stopped at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            bound([sys.executable, "-m", "service.cli", "up", "--port", str(port)]),
            cwd=ROOT,
            env={**os.environ, "PACELINE_DATA_DIR": str(folder)},
            stdout=log,
            stderr=log,
        )
    try:
        client = Client(Settings(url=f"http://127.0.0.1:{port}"))
        _await_ready(client, process, folder / "service.log")
        yield client
    finally:
        process.terminate()
        process.wait()


def _await_ready(client: Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            client.get("/readyz")
            return
        except ServiceUnreachable:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"The service did not start; its log is {log}:\n{log.read_text()[-2000:]}")
            time.sleep(0.2)


if __name__ == "__main__":
    main()
