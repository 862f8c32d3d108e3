"""What is measured cannot reach what is the service's: database, tokens, environment."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from examples.tinylm.make_repository import commit, git
from runners import isolation
from runners.account import Account
from runners.guard import Ended
from runners.guarded import Guarded
from runners.isolation import open_data_dir, trial_account
from runners.origin import site_packages
from runners.worktree import Worktree
from service.cli import doctor
from service.config import Settings
from service.doctor.finding import Level
from service.domain import Status
from service.errors import Refused
from tests.conftest import missing, postgres_database
from tests.fleet import Fleet, free_port
from tests.integration.test_guard import Trial
from tests.integration.trainers import changed

ROOT = Path(__file__).parents[2]
NOBODY = Account(name="nobody")
PRODUCTION = {"broker_url": "redis://127.0.0.1:1/0"}

SPY = Path(__file__).with_name("spy.py").read_text()
ENTRY = "import sys; sys.argv[0] = 'paceline'; from service.entry import main; main()"
TELL = (
    "import json, spy\n    if records.rank == 0:\n"
    "        print('SET-UP', Path('set-up.json').read_text(), flush=True)\n"
    "        print('TRIAL', json.dumps(spy.found()), flush=True)"
)


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    """A Python with our packages that everybody may run; ours may lie in root's own folder."""
    if os.geteuid() != 0:
        missing("root, who alone can start what runs as another user")
    with (
        tempfile.TemporaryDirectory(prefix="pl-python-") as name,
        pytest.MonkeyPatch.context() as m,
    ):
        if NOBODY.lacks() is not None:
            Path(name).chmod(0o755)
            program = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin")
            if program is None:
                missing("a Python that the user nobody may run, such as Debian's")
            subprocess.run([str(program), "-m", "venv", "--without-pip", name], check=True)
            made = Path(name, "bin", "python")
            (site_packages(made) / "ours.pth").write_text(sysconfig.get_path("purelib"))
            m.setattr(sys, "executable", str(made))
        lacks = NOBODY.lacks(ROOT / "workloads" / "__main__.py")
        if lacks is not None:
            pytest.skip(f"nobody cannot reach this checkout: {lacks}")
        yield sys.executable


@pytest.fixture(autouse=True)
def _python(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", python)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that everybody may pass through; pytest's own are closed."""
    with_parents = [tmp_path, *tmp_path.parents[:2]]
    modes = {path: path.stat().st_mode for path in with_parents}
    for path in with_parents:
        path.chmod(0o711)
    yield tmp_path
    for path, mode in modes.items():
        path.chmod(mode)


@pytest.fixture
def fleet(postgres_url: str, migrated_postgres: str, redis_program: Path) -> Iterator[Fleet]:
    with (
        postgres_database(postgres_url, migrated_postgres) as engine,
        Fleet(
            engine.url.render_as_string(hide_password=False), redis_program, trial_user="nobody"
        ) as made,
    ):
        yield made


@pytest.mark.timeout(300)
def test_neither_set_up_nor_trial_finds_a_secret(fleet: Fleet):
    source = fleet.source
    git(source, "switch", "--quiet", "--create", "curious", "main")
    (source / "spy.py").write_text(SPY)
    (source / "train.py").write_text(changed("ok").replace("# before", TELL))
    manifest = (source / "paceline.yml").read_text()
    install = 'setup: {install: ["python spy.py"]}\n'
    (source / "paceline.yml").write_text(manifest + install)
    commit(source, "Look around", hour=11)
    git(source, "switch", "--quiet", "main")
    fleet.start("worker", slot="0")
    run = fleet.wait(fleet.request("curious"))
    assert run.status is Status.FINISHED, run.failure_detail
    assert any(pair.invalid_reason is None for pair in run.pairs), run.headline
    assert ["sleep", "612"] not in living()
    said = [
        line.partition(" ")
        for path in fleet.folder.glob("artifacts/runs/*/*/log.txt")
        for line in path.read_text().splitlines()
        if line.startswith(("SET-UP", "TRIAL"))
    ]
    assert {who for who, _, _ in said} == {"SET-UP", "TRIAL"}
    user = pwd.getpwnam("nobody")
    for who, _, text in said:
        found = json.loads(text)
        allowed = {"PACELINE_RECORDS", "PACELINE_TURN_SOCKET"} if who == "TRIAL" else set()
        assert set(found.pop("variables")) <= allowed
        assert found.pop("user") == user.pw_uid
        assert found.pop("groups") == os.getgrouplist("nobody", user.pw_gid)
        assert found.pop("no_new_privs") == 1
        if who == "SET-UP":
            assert found.pop("writes_environment"), "it fills it"
        assert not any(found.values()), (who, found)


def test_the_memory_of_our_processes_is_closed_to_others_of_the_same_user():
    read = "import pathlib, sys; pathlib.Path(f'/proc/{sys.argv[1]}/environ').read_bytes()"
    hide = "from service.entry import hide_process; hide_process()"
    wait = "print(flush=True); import sys; sys.stdin.read()"
    for lines, is_readable in ((wait, True), (f"{hide}; {wait}", False)):
        process = subprocess.Popen(
            [sys.executable, "-c", lines],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **NOBODY.start_arguments(),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        reader = subprocess.run(
            [sys.executable, "-c", read, str(process.pid)],
            capture_output=True,
            **NOBODY.start_arguments(),
        )
        process.communicate()
        assert (reader.returncode == 0) == is_readable, reader.stderr


@pytest.mark.parametrize("program", [["-m", "service.cli"], ["-c", ENTRY]])
def test_every_command_hides_itself(program: list[str], folder: Path):
    """Its /proc entries belong to root then, whoever it runs as."""
    argv = [sys.executable, *program, "up", "--port", str(free_port())]
    environment = {"PATH": os.environ["PATH"], "PACELINE_DATA_DIR": str(folder / "data")}
    (folder / "data").mkdir()
    NOBODY.give(folder / "data")
    start = NOBODY.start_arguments()
    process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, **start)
    try:
        assert process.stdout is not None
        assert b"Paceline is at" in process.stdout.readline()
        assert Path(f"/proc/{process.pid}/environ").stat().st_uid == 0
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_trial_is_confined(folder: Path):
    """By limits that it cannot raise, and first in line when memory runs out."""
    trial = Trial(folder)
    code = (
        "import json, resource, pathlib; "
        "print(json.dumps([resource.getrlimit(kind) for kind in (resource.RLIMIT_CORE, "
        "resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE)])); "
        "print(pathlib.Path('/proc/self/oom_score_adj').read_text())"
    )
    limits = {"max_processes": 500, "max_file_bytes": 2**20}
    argv = [sys.executable, "-c", f"import time; time.sleep(0.2); {code}"]
    account = {"name": "nobody", **limits}
    outcome = Guarded(trial.order("", argv=argv, account=account)).wait(lambda: None)
    assert outcome.exit_code == 0, trial.log.read_text()
    numbers, score = trial.log.read_text().split("\n")[:2]
    assert json.loads(numbers) == [[0, 0], [500, 500], [2**20, 2**20]]
    assert score == "500"


def test_a_file_beyond_the_limit_is_the_trial_s_failure(folder: Path):
    trial = Trial(folder)
    code = "import tempfile; tempfile.TemporaryFile().write(bytes(2**21))"
    order = trial.order("", argv=[sys.executable, "-c", code], account={"max_file_bytes": 2**20})
    outcome = Guarded(order).wait(lambda: None)
    assert (outcome.ended, outcome.exit_code) == (Ended.EXITED, 1)
    assert "File too large" in trial.log.read_text()


def test_a_user_who_is_gone_is_said(folder: Path):
    trial = Trial(folder)
    outcome = Guarded(trial.order("", account={"name": "no-such-user"})).wait(lambda: None)
    assert outcome.ended is Ended.NOT_STARTED
    assert "no-such-user" in outcome.detail


@pytest.mark.parametrize(
    ("values", "uid", "words"),
    [
        ({**PRODUCTION}, 0, "Set PACELINE_TRIAL_USER"),
        ({"trial_user": "no-such-user"}, 0, "useradd --system"),
        ({"trial_user": "nobody"}, 1234, "only root"),
    ],
)
def test_an_account_that_cannot_be_is_refused(
    values: dict[str, str], uid: int, words: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(isolation.os, "geteuid", lambda: uid)
    with pytest.raises(Refused, match=words) as caught:
        trial_account(Settings(**values))
    assert caught.value.field == "trial_user"


@pytest.mark.parametrize(
    ("values", "uid"),
    [({}, 0), ({}, 1234), (PRODUCTION, 1234), ({**PRODUCTION, "trial_user": "root"}, 0)],
)
def test_the_worker_s_own_account(
    values: dict[str, str], uid: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(isolation.os, "geteuid", lambda: uid)
    assert trial_account(Settings(**values)).is_own


@pytest.mark.parametrize(
    ("values", "uid", "level"),
    [
        ({}, 0, Level.OK),
        (PRODUCTION, 1234, Level.WARNING),
        (PRODUCTION, 0, Level.FAILURE),
        ({**PRODUCTION, "trial_user": "nobody"}, 0, Level.OK),
    ],
)
def test_doctor_says_whose_trials_are(
    values: dict[str, str], uid: int, level: Level, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(isolation.os, "geteuid", lambda: uid)
    assert doctor.trial_user(Settings(**values)).level is level


def test_a_data_folder_lets_through_and_shows_nothing(folder: Path):
    data = folder / "data"
    data.mkdir()
    (data / "paceline.db").touch(0o644)
    assert open_data_dir(Settings(data_dir=data, trial_user="nobody")).name == "nobody"
    assert NOBODY.lacks(data / "library" / "workloads" / "turns.py") is None
    for closed in ("", "artifacts", "worktrees", "mirrors"):
        assert not can_as_nobody(f"list(pathlib.Path({str(data / closed)!r}).iterdir())"), closed
    assert not can_as_nobody(f"open({str(data / 'paceline.db')!r})")


def test_a_data_folder_out_of_reach_is_refused(tmp_path: Path):
    tmp_path.chmod(0o700)
    with pytest.raises(Refused, match="where everybody may pass"):
        open_data_dir(Settings(data_dir=tmp_path / "data", trial_user="nobody"))


def test_a_worktree_is_the_trials_and_its_copy_is_not(folder: Path):
    def check_out(path: Path) -> None:
        (path / "package").mkdir(parents=True)
        (path / "package" / "module.py").write_text("right")

    folder.chmod(0o711)
    worktree = Worktree(folder / "tree", NOBODY)
    worktree.make(check_out)
    worktree.keep()
    module = f"pathlib.Path({str(folder)!r}, 'tree', 'package', 'module.py')"
    for _ in range(2):
        assert can_as_nobody(f"({module}.write_text('wrong'), {module}.with_suffix('.x').touch())")
        worktree.restore()
        assert (folder / "tree" / "package" / "module.py").read_text() == "right"
        assert not (folder / "tree" / "package" / "module.x").exists()
    copy = module.replace("'tree'", "'tree.prepared'")
    assert not can_as_nobody(f"{copy}.write_text('wrong')")


def test_a_link_that_a_trial_left_leads_nobody_astray(folder: Path):
    """Restoring is root's work, and the tree is somebody else's."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "module.py").write_text("precious")

    def check_out(path: Path) -> None:
        (path / "package").mkdir(parents=True)
        (path / "package" / "module.py").write_text("right")

    worktree = Worktree(folder / "tree", NOBODY)
    worktree.make(check_out)
    worktree.keep()
    package = f"pathlib.Path({str(folder)!r}, 'tree', 'package')"
    swap = f"(shutil.rmtree({package}), {package}.symlink_to({str(outside)!r}))"
    assert can_as_nobody(swap)
    worktree.restore()
    assert (outside / "module.py").read_text() == "precious"
    assert (outside / "module.py").stat().st_uid == 0
    assert (folder / "tree" / "package" / "module.py").read_text() == "right"


def test_what_is_taken_back_is_for_all_to_read_and_nobody_to_write(folder: Path):
    tree = folder / "tree"
    tree.mkdir()
    modes = {"program": 0o4755, "open": 0o666, "closed": 0o600, "script": 0o700, "folder": 0o777}
    for name, mode in modes.items():
        path = tree / name
        path.mkdir() if name == "folder" else path.touch()
        path.chmod(mode)
    (tree / "link").symlink_to("/etc/hostname")
    NOBODY.give(tree)
    NOBODY.take_back(tree)
    found = {path.name: path.lstat().st_mode & 0o7777 for path in tree.iterdir()}
    found.pop("link")
    assert found == {
        "program": 0o755, "open": 0o644, "closed": 0o644, "script": 0o755, "folder": 0o755,
    }  # fmt: skip
    assert {path.lstat().st_uid for path in (tree, *tree.iterdir())} == {0}


def test_the_copy_of_a_set_up_is_safe_whatever_modes_it_leaves(folder: Path):
    def check_out(path: Path) -> None:
        path.mkdir()
        (path / "module.py").write_text("right")

    worktree = Worktree(folder / "tree", NOBODY)
    worktree.make(check_out)
    (folder / "tree").chmod(0o777)
    (folder / "tree" / "module.py").chmod(0o4777)
    worktree.keep()
    copy = f"pathlib.Path({str(folder)!r}, 'tree.prepared')"
    assert not can_as_nobody(f"({copy} / 'module.py').write_text('wrong')")
    assert not can_as_nobody(f"({copy} / 'new').touch()")
    assert not (folder / "tree.prepared" / "module.py").stat().st_mode & 0o7022


def living() -> list[list[str]]:
    """Command lines of nobody's processes."""
    uid = pwd.getpwnam("nobody").pw_uid
    found = [process.info for process in psutil.process_iter(["uids", "cmdline"])]
    return [info["cmdline"] for info in found if info["uids"] and info["uids"].real == uid]


def can_as_nobody(action: str) -> bool:
    """Whether nobody can do something, told as an expression."""
    argv = [sys.executable, "-c", f"import pathlib, shutil; {action}"]
    result = subprocess.run(argv, capture_output=True, text=True, **NOBODY.start_arguments())
    assert result.returncode == 0 or "PermissionError" in result.stderr, result.stderr
    return result.returncode == 0
