"""A real Prometheus scrapes a real Paceline, and its own tool reads our rules and our metrics."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.architecture.source import ROOT
from tests.conftest import missing
from tests.fleet import free_port

DEPLOY = ROOT / "deploy" / "prometheus"
_LIMIT_S = 240.0


def program(name: str) -> str:
    """Path of one of Prometheus's programs."""
    found = shutil.which(name)
    if found is None:
        missing(f"{name} (apt-get install prometheus)")
    assert found is not None
    return found


def promtool(*arguments: str | Path, stdin: str = "") -> None:
    """Run promtool; what it complains of fails the test."""
    done = subprocess.run(
        [program("promtool"), *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, environment: dict[str, str] | None = None
) -> Iterator[None]:
    """A process that is told to end, and ends, with the test."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=file, stderr=file
        )
        try:
            yield
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait(_LIMIT_S)


def eventually(what: Callable[[], Any], log: Path) -> Any:
    """The first answer that holds something."""
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        try:
            if found := what():
                return found
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def test_the_rules_and_the_example_are_valid():
    promtool("check", "rules", DEPLOY / "alerts.yml")
    promtool("check", "config", DEPLOY / "prometheus.yml")


def test_each_alert_fires_on_its_trouble_only():
    promtool("test", "rules", ROOT / "tests" / "integration" / "alerts.yml")


@pytest.mark.timeout(600)
def test_prometheus_scrapes_paceline(tmp_path: Path):
    prometheus = program("prometheus")
    service, server = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "5s", "evaluation_interval": "5s"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [service]}]
    config["rule_files"] = [str(DEPLOY / "alerts.yml")]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))

    up = [sys.executable, "-m", "service.cli", "up", "--port", service.rpartition(":")[2]]
    settings = {"PACELINE_DATA_DIR": str(tmp_path / "data"), "PACELINE_LOG_FORMAT": "json"}
    watch = [
        prometheus,
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address={server}",
    ]
    our_log, its_log = tmp_path / "paceline.log", tmp_path / "prometheus.log"
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=60))
        stack.enter_context(running(up, our_log, settings))
        eventually(lambda: client.get(f"http://{service}/readyz").is_success, our_log)
        stack.enter_context(running(watch, its_log))
        eventually(lambda: client.get(f"http://{server}/-/ready").is_success, its_log)

        def query(expression: str) -> list[Any]:
            answer = client.get(f"http://{server}/api/v1/query", params={"query": expression})
            found: list[Any] = answer.json()["data"]["result"]
            return found

        client.get(f"http://{service}/runs", params={"project": "tinylm"})
        (scraped,) = eventually(lambda: query('up{job="paceline"} == 1'), its_log)
        assert scraped["metric"]["instance"] == service
        (free,) = eventually(lambda: query('paceline_slots{state="free"}'), its_log)
        assert (free["metric"]["cluster"], free["value"][1]) == ("local", "1")
        requests = 'paceline_http_requests_total{route="/runs"} > 0'
        (counted,) = eventually(lambda: query(requests), its_log)
        assert (counted["metric"]["method"], counted["metric"]["status"]) == ("GET", "2xx")

        def health() -> list[str]:
            groups = client.get(f"http://{server}/api/v1/rules").json()["data"]["groups"]
            found = [rule["health"] for group in groups for rule in group["rules"]]
            return [] if "unknown" in found else found

        assert set(eventually(health, its_log)) == {"ok"}
        assert not query('ALERTS{alertstate="firing"}')
        promtool("check", "metrics", stdin=client.get(f"http://{service}/metrics").text)

    lines = [line for line in our_log.read_text().splitlines() if line.startswith("{")]
    entries = [json.loads(line) for line in lines]
    messages = [e["message"] for e in entries if e["logger"] == "service.api.requests"]
    assert len(messages) == 1, "scrapes and health checks are no lines of their own"
    assert messages[0].startswith("GET /runs 200 in ")
