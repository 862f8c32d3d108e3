"""A side's Python, with real environments and pip, from files only: no index is asked."""

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runners.installation import Installation, install
from runners.shell import Shell
from service.domain import CANCELLED, FailureReason
from service.errors import MeasurementFailed
from service.manifest import Setup

# A build backend of the project's own: packs tiny.py into a wheel, or only the path to it.
BACKEND = """
import os, zipfile

def _wheel(folder, files):
    name = "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    files = {**files, f"{info}/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\\n" for path in files))
    return name

def build_wheel(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {"tiny.py": open("tiny.py").read()})

def build_editable(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {"tiny.pth": os.getcwd()})
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
PIP = "pip install --no-index --no-deps --no-build-isolation"
EDITABLE, FIXED = f"{PIP} -e .", f"{PIP} ."


def side(folder: Path, value: str = "1") -> Path:
    """A worktree with the project `tiny`."""
    folder.mkdir(parents=True)
    (folder / "tiny.py").write_text(f"VALUE = {value!r}\n")
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(PROJECT)
    return folder


def wheel(folder: Path, name: str, version: str, **modules: str) -> str:
    """A wheel in the folder; the requirement that names it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {f"{module}.py": text for module, text in modules.items()}
    files |= {f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in files))
    return f"./{path.name}\n"


def go_on() -> None:
    """A check that ends nothing."""


def prepared(setup: Setup, worktree: Path, key: str = "key", check: Any = go_on) -> Installation:
    environments = worktree.parent / "environments"
    shell = Shell(home=worktree.parent / "home", slot_id=UUID(int=7), check=check)
    return install(setup, worktree, environments, key, shell)


def refused(setup: Setup, worktree: Path, key: str = "key") -> MeasurementFailed:
    with pytest.raises(MeasurementFailed) as error:
        prepared(setup, worktree, key)
    return error.value


def said(python: Path, code: str, folder: Path = Path("/")) -> str:
    environment = {"PATH": os.environ["PATH"]}
    command = [python, "-c", code]
    return subprocess.check_output(command, cwd=folder, env=environment, text=True).strip()


def test_without_a_setup_the_cluster_s_python_serves(tmp_path: Path):
    found = prepared(Setup(), side(tmp_path / "a"))
    assert found.python == Path(sys.executable)
    assert found.software["python"] == sys.version.split()[0]
    assert "numpy" in found.software["versions"]
    assert not (tmp_path / "environments").exists()


@pytest.mark.parametrize("command", [EDITABLE, FIXED])
def test_each_side_has_its_own_project(tmp_path: Path, command: str):
    setup = Setup(install=[command])
    found = {
        value: prepared(setup, side(tmp_path / value, value), f"key-{value}")
        for value in ("baseline", "candidate")
    }
    for value, installation in found.items():
        assert said(installation.python, "import tiny; print(tiny.VALUE)") == value
        assert "numpy" in installation.software["versions"], "the cluster's packages lie below"


def test_a_side_is_installed_once(tmp_path: Path):
    worktree, calls = side(tmp_path / "a"), tmp_path / "calls"
    count = f"""python -c 'open("{calls}", "a").write("x")'"""
    setup = Setup(install=[EDITABLE, count])
    first, second = prepared(setup, worktree), prepared(setup, worktree)
    assert first == second
    assert calls.read_text() == "x"


def test_dependencies_are_cached_by_the_content_of_their_files(tmp_path: Path):
    baseline, candidate, other = (side(tmp_path / name) for name in ("a", "b", "c"))
    for folder, version in ((baseline, "1.0"), (candidate, "1.0"), (other, "2.0")):
        text = wheel(folder, "dep", version, dep=f"VERSION = {version!r}")
        (folder / "requirements.txt").write_text(f"--no-index\n{text}")
    setup = Setup(dependencies=["requirements.txt"])
    first = prepared(setup, baseline)
    (baseline / "dep-1.0-py3-none-any.whl").unlink()  # a second installation would need it
    (candidate / "dep-1.0-py3-none-any.whl").unlink()
    assert prepared(setup, baseline).python == first.python
    assert prepared(setup, candidate).python == first.python
    third = prepared(setup, other)
    assert third.python != first.python
    assert said(first.python, "import dep; print(dep.VERSION)") == "1.0"
    assert said(third.python, "import dep; print(dep.VERSION)") == "2.0"


def test_a_change_in_an_included_file_is_a_change_of_the_dependencies(tmp_path: Path):
    worktree = side(tmp_path / "a")
    (worktree / "requirements.txt").write_text("--no-index\n-r sub/base.txt\n-c limits.txt\n")
    (worktree / "limits.txt").touch()
    (worktree / "sub").mkdir()
    setup = Setup(dependencies=["requirements.txt"])
    pythons = set()
    for version in ("1.0", "2.0"):
        text = wheel(worktree, "dep", version, dep="")
        (worktree / "sub" / "base.txt").write_text(text)
        pythons.add(prepared(setup, worktree).python)
    assert len(pythons) == 2
    (worktree / "sub" / "base.txt").write_text("-r ../../secret.txt\n")
    assert "'../secret.txt', which is no file" in refused(setup, worktree).failure.detail


@pytest.mark.parametrize("name", ["pip", "pip3", "python3 -m pip", "sh install.sh"])
def test_every_pip_is_the_side_s(tmp_path: Path, name: str):
    worktree = side(tmp_path / "a")
    (worktree / "install.sh").write_text('exec pip "$@"\n')
    command = EDITABLE.replace("pip", name, 1)
    found = prepared(Setup(install=[command]), worktree)
    assert said(found.python, "import tiny; print(tiny.VALUE)") == "1"
    worker = subprocess.run(
        [sys.executable, "-c", "import tiny"], cwd="/", capture_output=True, check=False
    )
    assert worker.returncode != 0, "nothing is installed into the worker's environment"


def test_an_installation_is_made_anew_for_a_new_worktree(tmp_path: Path):
    worktree = side(tmp_path / "a")
    build = """python -c 'open("built", "w")'"""
    for stamp in (1, 2):
        (worktree / ".git").write_text("gitdir: elsewhere")
        os.utime(worktree / ".git", (stamp, stamp))
        (worktree / "built").unlink(missing_ok=True)
        prepared(Setup(install=[build]), worktree)
        assert (worktree / "built").exists()


def test_the_project_lies_on_its_dependencies(tmp_path: Path):
    worktree = side(tmp_path / "with space")
    text = wheel(worktree, "dep", "1.0", dep="X = 5")
    (worktree / "requirements.txt").write_text(f"--no-index\n{text}")
    setup = Setup(dependencies=["requirements.txt"], install=[EDITABLE])
    found = prepared(setup, worktree)
    code = "import dep, tiny, numpy; print(dep.X, tiny.VALUE)"
    assert said(found.python, code) == "5 1"


def test_what_a_side_pins_is_what_it_gets(tmp_path: Path):
    worktree = side(tmp_path / "a")
    text = wheel(worktree, "numpy", "0.1", numpy="__version__ = '0.1'")
    (worktree / "requirements.txt").write_text(f"--no-index\n{text}")
    found = prepared(Setup(dependencies=["requirements.txt"]), worktree)
    assert said(found.python, "import numpy; print(numpy.__version__)") == "0.1"
    assert found.software["versions"]["numpy"] == "0.1"


def test_a_project_from_another_folder_is_not_measured(tmp_path: Path):
    stranger = side(tmp_path / "stranger", "not mine")
    setup = Setup(install=[f"{PIP} -e {stranger}"])
    error = refused(setup, side(tmp_path / "a"))
    assert error.failure.reason is FailureReason.WRONG_ORIGIN
    assert str(stranger) in error.failure.detail


def test_a_module_that_is_found_elsewhere_is_not_measured(tmp_path: Path):
    stranger = side(tmp_path / "stranger", "not mine")
    worktree = side(tmp_path / "a")
    line = f"import sys; sys.path.insert(0, {str(stranger)!r})"
    hijack = f"import site; open(site.getsitepackages()[0] + '/0.pth', 'w').write({line!r})"
    (worktree / "hijack.py").write_text(hijack)
    error = refused(Setup(install=[FIXED, "python hijack.py"]), worktree)
    assert error.failure.reason is FailureReason.WRONG_ORIGIN
    assert "'tiny'" in error.failure.detail


def test_dependencies_hold_no_folder_of_a_revision(tmp_path: Path):
    """They are shared: the candidate would be measured with the baseline's project."""
    worktree = side(tmp_path / "a")
    (worktree / "requirements.txt").write_text("--no-index\n-e .\n")  # a habit of many
    error = refused(Setup(dependencies=["requirements.txt"]), worktree)
    assert error.failure.reason is FailureReason.WRONG_ORIGIN
    assert "tiny" in error.failure.detail
    assert "setup.install" in error.failure.detail


def test_a_data_folder_behind_a_link(tmp_path: Path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    found = prepared(Setup(install=[EDITABLE]), side(tmp_path / "link" / "a"))
    assert said(found.python, "import tiny; print(tiny.VALUE)") == "1"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -c 'print(\"the compiler is missing\"); raise SystemExit(7)'", "exited with 7"),
        ("no-such-program --build", "No such file"),
        ("./no-such-script", "No such file"),
        ("echo 'unbalanced", "is no command"),
        ("", "is no command"),
        ("pip install --no-index no-such-package", "exited with 1"),
        ("python -c 'import os; os.kill(os.getpid(), 9)'", "exited with -9"),
    ],
)
def test_a_command_that_fails(tmp_path: Path, command: str, words: str):
    error = refused(Setup(install=["python -c pass", command]), side(tmp_path / "a"))
    assert error.failure.reason is FailureReason.SETUP_FAILED
    assert error.failure.detail.startswith("setup.install.1: ")
    assert words in error.failure.detail
    assert "compiler" not in command or "the compiler is missing" in error.log
    assert "no-such-package" not in command or "no-such-package" in error.log


def test_a_failed_installation_is_tried_anew(tmp_path: Path):
    worktree = side(tmp_path / "a")
    setup = Setup(install=["""python -c 'open("lucky")'"""])
    refused(setup, worktree)
    (worktree / "lucky").touch()
    assert prepared(setup, worktree)


@pytest.mark.parametrize("name", ["requirements.txt", "../secret.txt", "/etc/hostname", "."])
def test_dependencies_are_files_of_the_revision(tmp_path: Path, name: str):
    (tmp_path / "secret.txt").touch()
    error = refused(Setup(dependencies=[name]), side(tmp_path / "a"))
    assert error.failure.reason is FailureReason.SETUP_FAILED
    assert "no file of this revision" in error.failure.detail


def test_a_link_out_of_the_revision_is_no_file_of_it(tmp_path: Path):
    worktree = side(tmp_path / "a")
    (worktree / "requirements.txt").symlink_to("/etc/hostname")
    assert (
        "no file of this revision"
        in refused(Setup(dependencies=["requirements.txt"]), worktree).failure.detail
    )


def test_what_a_command_starts_does_not_outlive_it(tmp_path: Path):
    worktree = side(tmp_path / "a")
    (worktree / "daemon.py").write_text(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    open('pid', 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n"
        "time.sleep(0.3)\n"
    )
    started = time.monotonic()
    prepared(Setup(install=["python daemon.py"]), worktree)
    assert time.monotonic() - started < 60
    assert not Path(f"/proc/{(worktree / 'pid').read_text()}").exists()


def test_an_installation_ends_when_the_worker_must_stop(tmp_path: Path):
    worktree = side(tmp_path / "a")
    code = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    pid = worktree / "pid"

    def check() -> None:
        if pid.exists() and pid.read_text():
            raise MeasurementFailed(CANCELLED)

    with pytest.raises(MeasurementFailed, match="cancelled"):
        prepared(Setup(install=[f'python -c "{code}"']), worktree, check=check)
    assert not Path(f"/proc/{pid.read_text()}").exists()


def test_what_a_side_prints_is_no_answer_of_its_python(tmp_path: Path):
    """At start, without a newline, and at exit."""
    worktree = side(tmp_path / "a")
    line = "import atexit; print('hello', end=''); atexit.register(print, '[1')"
    code = f"import site; open(site.getsitepackages()[0] + '/0.pth', 'w').write({line!r})"
    (worktree / "talk.py").write_text(code)
    found = prepared(Setup(install=[EDITABLE, "python talk.py"]), worktree)
    assert found.software["python"] == sys.version.split()[0]


def test_a_python_that_does_not_answer(tmp_path: Path):
    worktree = side(tmp_path / "a")
    line = "import os; print('not today', flush=True); os._exit(0)"
    code = f"import site; open(site.getsitepackages()[0] + '/0.pth', 'w').write({line!r})"
    (worktree / "silence.py").write_text(code)
    error = refused(Setup(install=["python silence.py"]), worktree)
    assert error.failure.reason is FailureReason.SETUP_FAILED
    assert "did not say what it brings" in error.failure.detail
    assert error.log == "not today\n"


@pytest.mark.parametrize("module", ["plan", "probe"])
def test_modules_named_like_ours_are_the_side_s(tmp_path: Path, module: str):
    worktree = side(tmp_path / "a")
    (worktree / f"{module}.py").touch()
    backend = BACKEND.replace("tiny.py", f"{module}.py")
    (worktree / "backend.py").write_text(backend)
    assert prepared(Setup(install=[FIXED]), worktree)


def test_a_command_sees_nothing_of_paceline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PACELINE_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    worktree = side(tmp_path / "a")
    code = "import os; open('seen', 'w').write(repr(sorted(os.environ)))"
    prepared(Setup(install=[f'python -c "{code}"']), worktree)
    seen = (worktree / "seen").read_text()
    assert "PACELINE_DATABASE_URL" not in seen
    assert "PYTHONPATH" not in seen
    assert "PATH" in seen
