"""Where our packages come from, what the pure ones may know, and what a plug-in exposes."""

import importlib
import subprocess
import sys

import pytest

from tests.architecture.source import (
    PACKAGES,
    ROOT,
    attributes,
    definitions,
    files,
    imports,
    plugins,
)

PURE = [*files("service/stats"), "service/domain.py", "service/metrics.py"]
IMPURE = {"sqlalchemy", "time", "datetime", "logging", "os", "random", "secrets", "uuid"}
# numpy's and Python's global random state, which a seed of ours would not reach.
GLOBAL_RANDOM = {"np.random", "numpy.random"}

READERS_OF_THE_ENVIRONMENT = {
    "workloads/dist.py": "where torchrun has put this rank, and the steps to profile",
    "workloads/turns.py": "the turn server's socket, RANK, WORLD_SIZE",
    "workloads/records.py": "the records' folder, RANK, WORLD_SIZE",
    "runners/variables.py": "passes allow-listed parts on to what a worker starts",
}

PLUGINS = {
    "runners/launchers": {"submit", "root", "poll", "cancel", "logs"},
    "runners/parsers": {"parse", "Parsed"},
    "dashboards/pages": {"PATH", "Context", "build", "TEMPLATE"},
    "workloads/training": {"Config", "run"},
    "workloads/comm": {"Config", "run"},
    "workloads/data": {"Config", "run"},
    "workloads/micro": {"Config", "run"},
    "service/hosts": {"verify", "parse", "publish"},
    "service/stats/detectors": {"detect"},
}


@pytest.mark.parametrize("name", PACKAGES)
def test_our_packages_are_those_of_this_checkout(name: str):
    found = importlib.import_module(name).__file__
    assert found == str(ROOT / name / "__init__.py")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_process_started_here_finds_them_too(name: str):
    command = [sys.executable, "-c", f"import {name}; print({name}.__file__)"]
    found = subprocess.check_output(command, cwd=ROOT, text=True).strip()
    assert found == str(ROOT / name / "__init__.py")


@pytest.mark.parametrize("file", PURE)
def test_the_core_knows_no_session_clock_environment_log_or_chance(file: str):
    tops = {name.partition(".")[0] for name in imports(file)}
    assert not tops & IMPURE
    assert not set(attributes(file)) & GLOBAL_RANDOM


def test_the_environment_is_read_in_few_places():
    ours = files("service", "workloads", "runners", "dashboards", "migrations")
    readers = {
        file
        for file in ours
        if {"os.environ", "os.getenv", "os.environb"} & set(attributes(file))
        or {"os.environ", "os.getenv"} & imports(file)
    }
    assert readers == set(READERS_OF_THE_ENVIRONMENT)


def test_settings_are_the_service_s_reader():
    users = {
        file for file in files("service", "dashboards") if "pydantic_settings" in imports(file)
    }
    assert users == {"service/config.py"}


def test_what_runs_without_our_packages_depends_on_nothing():
    alone = ("runners/account.py", "runners/guard.py", "runners/probe.py")
    for file in ("workloads/turns.py", "workloads/records.py", *alone):
        others = {name for name in imports(file) if not name.startswith("runners.account")}
        tops = {name.partition(".")[0] for name in others}
        assert tops <= sys.stdlib_module_names, file


@pytest.mark.parametrize("file", [file for folder in PLUGINS for file in plugins(folder)])
def test_a_plug_in_exposes_what_its_kind_must(file: str):
    folder = file.rpartition("/")[0]
    found = definitions(file)
    assert PLUGINS[folder] <= found
    if folder == "runners/launchers":
        assert {"command", "manifest"} & found


def test_there_are_plug_ins_to_look_at():
    for folder in ("runners/launchers", "runners/parsers", "dashboards/pages"):
        assert plugins(folder), folder
