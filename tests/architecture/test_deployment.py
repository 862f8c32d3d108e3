"""What docker-compose.yml, the Dockerfile, the systemd units and their manual say is true."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.serving import DRAIN_S
from service.config import Settings
from tests.architecture import deployment
from tests.architecture.source import PACKAGES, ROOT

MANUAL = ROOT / "docs" / "operations.md"
# Written elsewhere at the same time. An entry that came true fails here, and is then deleted.
FILES = [
    deployment.COMPOSE,
    deployment.COMPOSE_ENV,
    deployment.DOCKERFILE,
    deployment.SYSTEMD_ENV,
    *deployment.UNITS,
    MANUAL,
]


def command_cases() -> list[object]:
    found = deployment.commands() | {
        line: shlex.split(line)[1:] for line in deployment.documented_commands(MANUAL)
    }
    return [pytest.param(argv, id=place) for place, argv in found.items()]


def setting_cases() -> list[object]:
    names = sorted({n for file in FILES for n in re.findall(r"PACELINE_[A-Z_]+", file.read_text())})
    return [pytest.param(name, id=name) for name in names]


@pytest.mark.parametrize("argv", command_cases())
def test_every_command_exists_with_these_options(argv: list[str]):
    deployment.parse(argv)


@pytest.mark.parametrize("argv", [["frobnicate"], ["db", "down"], ["api", "--quick"], ["backup"]])
def test_a_command_that_does_not_exist_would_be_noticed(argv: list[str]):
    with pytest.raises(Exception, match=r"no such|No such|Missing"):
        deployment.parse(argv)


@pytest.mark.parametrize("name", setting_cases())
def test_every_variable_is_a_setting(name: str):
    assert name.removeprefix("PACELINE_").lower() in Settings.model_fields


def test_what_compose_is_told_is_what_the_example_offers():
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", deployment.COMPOSE.read_text()))
    offered = set(re.findall(r"^#?([A-Z_]+)=", deployment.COMPOSE_ENV.read_text(), re.MULTILINE))
    assert used == offered


def test_no_secret_has_a_value():
    for file in (deployment.COMPOSE_ENV, deployment.COMPOSE):
        for line in file.read_text().splitlines():
            if found := re.match(r"^\s*\w*(?:PASSWORD|SECRET|KEY)\w*[=:]\s*(.*)$", line):
                assert re.fullmatch(r"|\$\{\w+:\?set it in deploy/compose\.env\}", found[1]), line


def test_compose_itself_takes_the_file(tmp_path: Path):
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("docker compose is not on this machine")
    secrets = "".join(f"{name}=x\n" for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD"))
    (tmp_path / "env").write_text(secrets + "PACELINE_SECRET_KEY=x\n")
    command = ["docker", "compose", "--env-file", str(tmp_path / "env"), "config", "--quiet"]
    subprocess.run(command, cwd=ROOT, check=True)


@pytest.mark.parametrize("name", sorted(deployment.services()))
def test_a_container_may_do_little(name: str):
    service = deployment.services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "build" in service or service["user"] in ("postgres", "redis")
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert ":" in service["image"]
    assert not service["image"].endswith(":latest")


@pytest.mark.parametrize("stage", ["service", "worker"])
def test_an_image_does_not_run_as_root(stage: str):
    users = [rest for word, rest in deployment.instructions(stage) if word == "USER"]
    assert users[-1] == "10001:10001"


def test_services_wait_for_what_can_be_waited_for():
    services = deployment.services()
    for service in services.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "test" in services[name]["healthcheck"]
            else:
                assert wait["condition"] == "service_completed_successfully"
                assert services[name]["restart"] == "no"


def test_volumes_are_named_and_used():
    declared = set(deployment.compose()["volumes"])
    mounts = [m for service in deployment.services().values() for m in service.get("volumes", [])]
    assert {mount.partition(":")[0] for mount in mounts} == declared


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_whoever_stops_a_process_waits_longer_than_it_takes():
    services = deployment.services()
    kill_grace_s = Settings.model_fields["kill_grace_s"].default
    assert seconds(services["api"]["stop_grace_period"]) > DRAIN_S
    assert seconds(services["worker"]["stop_grace_period"]) > 2 * kill_grace_s
    for unit in deployment.UNITS:
        (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
        assert int(stop) > (2 * kill_grace_s if "worker" in unit.name else DRAIN_S)


def test_what_is_copied_into_the_image_is_there_and_not_left_out():
    kept = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = [
        source.rstrip("/")
        for stage in ("build", "service", "worker")
        for word, rest in deployment.instructions(stage)
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert all((ROOT / source).exists() for source in copied)
    assert sorted(copied) == sorted(kept)
    assert set(PACKAGES) <= set(copied)


def test_versions_that_must_agree_do():
    dockerfile, makefile = deployment.DOCKERFILE.read_text(), (ROOT / "Makefile").read_text()
    (client,) = re.findall(r"postgresql-client-(\d+)", dockerfile)
    assert deployment.services()["postgres"]["image"].startswith(f"postgres:{client}-")
    (python,) = re.findall(r"--python-version (\S+)", makefile)
    assert set(re.findall(r"^FROM python:(.*?)-", dockerfile, re.MULTILINE)) == {python}


@pytest.mark.parametrize("unit", deployment.UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    # The program must exist, and does so elsewhere here.
    text = unit.read_text().replace(f"{deployment.INSTALLED}paceline", sys.executable)
    file = tmp_path / unit.name.replace("@", "@local")
    file.write_text(text)
    result = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_trials_are_ended_by_their_guards_not_by_systemd():
    (worker,) = [unit.read_text() for unit in deployment.UNITS if "worker" in unit.name]
    settings = dict(re.findall(r"^(\w+)=(.*)$", worker, re.MULTILINE))
    assert settings["KillMode"] == "mixed"
    assert settings["OOMPolicy"] == "continue"
    # Each of these would be inherited by what is measured, or hide it from its guard.
    assert not settings.keys() & {
        "PrivateDevices", "PrivateUsers", "ProtectProc", "ProcSubset", "MemoryDenyWriteExecute",
        "SystemCallFilter", "MemoryMax", "CPUQuota", "RestrictAddressFamilies",
    }  # fmt: skip
