"""Mirrors, on real git repositories in temporary folders."""

import shutil
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import UUID

import pytest

from runners.checkout import Mirror
from service.domain import FailureReason
from service.errors import MeasurementFailed
from tests import factories
from tests.factories import Repository

PROJECT = UUID(int=7)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = factories.repository(tmp_path / "project")
    made.commit("Start", {"train.py": "print(1)\n", "paceline.yml": "version: 1\n"})
    return made


@pytest.fixture
def mirror(repository: Repository, tmp_path: Path) -> Mirror:
    made = Mirror(tmp_path / "data", PROJECT, str(repository.path))
    made.sync()
    return made


def refused(mirror: Mirror, revision: str) -> MeasurementFailed:
    with pytest.raises(MeasurementFailed) as error:
        mirror.resolve(revision, "candidate")
    return error.value


def test_a_revision_becomes_a_commit(mirror: Mirror, repository: Repository):
    found = mirror.resolve("main", "candidate")
    assert found.sha == repository.git("rev-parse", "HEAD")
    assert (found.subject, found.author) == ("Start", "Ada")
    assert found.committed_at.timestamp() == 1_700_000_000


def test_every_way_to_name_a_commit(mirror: Mirror, repository: Repository):
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1", "-m", "one")
    second = repository.commit("Go on — ünïcode", {"train.py": "print(2)\n"})
    mirror.sync()
    for name in ("main", "HEAD", second, second[:10], "v1^{commit}~0^0", "refs/heads/main"):
        assert mirror.resolve(name, "candidate").sha in (first, second)
    assert mirror.resolve("v1", "candidate").sha == first
    assert mirror.resolve("main^1", "baseline").sha == first
    assert mirror.resolve("main", "candidate").subject == "Go on — ünïcode"


def test_a_commit_without_a_subject(mirror: Mirror, repository: Repository):
    repository.commit("", {})
    mirror.sync()
    assert mirror.resolve("main", "candidate").subject == ""


@pytest.mark.parametrize(
    "revision",
    [
        "nowhere",
        "main^1",
        "HEAD:train.py",
        "main^{tree}",
        "main..main",
        "--all",
        "--upload-pack=touch /tmp/x",
        "-x",
        "",
        "ma\0in",
        "ma\nin",
        "'; touch x; '",
        "main" * 50_000,
        "0" * 40,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_names_no_commit(mirror: Mirror, revision: str):
    error = refused(mirror, revision)
    assert error.failure.reason is FailureReason.UNKNOWN_REVISION
    assert "Name a branch, a tag or a sha" in error.failure.detail
    assert len(error.failure.detail) < 1000


def test_a_commit_that_another_mirror_resolved_is_fetched(repository: Repository, tmp_path: Path):
    mirror = Mirror(tmp_path / "elsewhere", PROJECT, str(repository.path))
    sha = repository.git("rev-parse", "main")
    mirror.require(sha)
    assert mirror.read(sha, "train.py") is not None
    later = repository.commit("later", {"train.py": "2"})
    mirror.require(later)
    assert mirror.read(later, "train.py") == "2"


def test_a_commit_that_was_rewritten_away_is_told(repository: Repository, tmp_path: Path):
    mirror = Mirror(tmp_path / "elsewhere", PROJECT, str(repository.path))
    with pytest.raises(MeasurementFailed, match="no more") as error:
        mirror.require("0" * 40)
    assert error.value.failure.reason is FailureReason.UNKNOWN_REVISION


def test_a_source_that_is_gone(tmp_path: Path):
    gone = Mirror(tmp_path / "data", PROJECT, str(tmp_path / "nowhere"))
    with pytest.raises(MeasurementFailed, match="cannot be fetched") as error:
        gone.sync()
    assert error.value.failure.reason is FailureReason.SOURCE_UNAVAILABLE
    assert not gone.path.exists()


@pytest.mark.parametrize("source", ["--upload-pack=touch owned", "ext::sh -c 'touch owned'"])
def test_a_source_is_data_not_an_option(tmp_path: Path, source: str):
    with pytest.raises(MeasurementFailed):
        Mirror(tmp_path / "data", PROJECT, source).sync()
    assert not list(tmp_path.rglob("owned"))


def test_sync_follows_the_source(mirror: Mirror, repository: Repository):
    repository.git("branch", "feature")
    mirror.sync()
    assert mirror.resolve("feature", "candidate")
    rewritten = repository.git("commit-tree", "HEAD^{tree}", "-m", "Rewritten")
    repository.git("update-ref", "refs/heads/main", rewritten)
    repository.git("branch", "-D", "feature")
    mirror.sync()
    assert mirror.resolve("main", "candidate").sha == rewritten
    refused(mirror, "feature")


def test_many_may_sync_at_once(repository: Repository, tmp_path: Path):
    failures: list[BaseException] = []

    def sync() -> None:
        try:
            Mirror(tmp_path / "data", PROJECT, str(repository.path)).sync()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=sync) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_head_moves_with_the_source(mirror: Mirror, repository: Repository):
    """People compare main..HEAD on the branch they are on."""
    repository.git("checkout", "--quiet", "-b", "feature")
    on_branch = repository.commit("Try", {"train.py": "print(2)\n"})
    mirror.sync()
    assert mirror.resolve("HEAD", "candidate").sha == on_branch
    repository.git("checkout", "--quiet", "--detach")
    detached = repository.commit("On no branch", {"train.py": "print(3)\n"})
    mirror.sync()
    assert mirror.resolve("HEAD", "candidate").sha == detached
    assert mirror.resolve("HEAD^1", "baseline").sha == on_branch
    repository.git("checkout", "--quiet", "main")
    mirror.sync()
    assert mirror.resolve("HEAD", "candidate").subject == "Start"


def test_a_head_that_names_nothing(mirror: Mirror, repository: Repository):
    """A bare repository whose default branch was renamed."""
    repository.git("symbolic-ref", "HEAD", "refs/heads/master")
    mirror.sync()
    refused(mirror, "HEAD")
    assert mirror.resolve("main", "candidate")


@pytest.mark.parametrize(
    ("date", "year"),
    [
        ("1700000000 +0000", 2023),
        ("1700000000 +2400", 2023),
        ("1700000000 +051800", 2023),
        ("999999999999 +0000", 9999),
        ("99999999999999999999 +0000", None),
        ("-1 +0000", 1970),
        ("tomorrow", 1970),
    ],
)
def test_dates_that_git_keeps(mirror: Mirror, repository: Repository, date: str, year: int | None):
    tree = repository.git("rev-parse", "main^{tree}")
    text = f"tree {tree}\nauthor Ada <a@b> {date}\ncommitter Ada <a@b> {date}\n\nOdd\n"
    file = repository.path.parent / "commit"
    file.write_text(text)
    sha = repository.git("hash-object", "-t", "commit", "-w", "--literally", str(file))
    repository.git("update-ref", "refs/heads/odd", sha)
    mirror.sync()
    found = mirror.resolve("odd", "candidate")
    assert found.subject == "Odd"
    assert found.committed_at.tzinfo is UTC
    assert year is None or found.committed_at.year == year


def test_files_of_a_commit_are_read_without_a_checkout(mirror: Mirror, repository: Repository):
    sha = repository.git("rev-parse", "HEAD")
    assert mirror.read(sha, "paceline.yml") == "version: 1\n"
    assert mirror.read(sha, "nothing.yml") is None
    with pytest.raises(ValueError, match="not a full sha"):
        mirror.read("main", "paceline.yml")


@pytest.mark.parametrize("what", ["a symbolic link", "a folder", "a submodule", "not UTF-8"])
def test_what_is_no_text_file_is_said(mirror: Mirror, repository: Repository, what: str):
    path = repository.path / "paceline.yml"
    path.unlink()
    if what == "a symbolic link":
        path.symlink_to("train.py")
    elif what == "a folder":
        path.mkdir()
        (path / "train.yml").touch()
    elif what == "a submodule":
        factories.repository(path).commit("Inner", {})
    else:
        path.write_bytes("café".encode("latin-1"))
    sha = repository.commit("Odd", {})
    mirror.sync()
    with pytest.raises(MeasurementFailed, match=f"^paceline.yml of {sha[:10]} is {what}") as error:
        mirror.read(sha, "paceline.yml")
    assert error.value.failure.reason is FailureReason.BAD_MANIFEST


def test_worktrees_of_two_commits_lie_side_by_side(
    mirror: Mirror, repository: Repository, tmp_path: Path
):
    first = repository.git("rev-parse", "HEAD")
    second = repository.commit("Go on", {"train.py": "print(2)\n", "new.py": ""})
    assert mirror.has(first)
    assert not mirror.has(second)
    mirror.sync()
    assert mirror.has(second)
    one, two = (tmp_path / "data" / "worktrees" / name for name in ("one", "two"))
    mirror.check_out(first, one)
    mirror.check_out(second, two)
    assert (one / "train.py").read_text() == "print(1)\n"
    assert (two / "train.py").read_text() == "print(2)\n"
    assert not (one / "new.py").exists()


@pytest.mark.parametrize("damage", ["index.lock", "locked", "gitdir", "mirror"])
def test_a_folder_that_git_remembers_is_checked_out_anew(
    mirror: Mirror, tmp_path: Path, damage: str
):
    """Git was killed at work there, or the mirror is a new one."""
    sha = mirror.resolve("main", "candidate").sha
    folder = tmp_path / "data" / "one"
    mirror.check_out(sha, folder)
    shutil.rmtree(folder)
    if damage == "mirror":
        shutil.rmtree(mirror.path)
        mirror.sync()
    else:
        (mirror.path / "worktrees" / "one" / damage).write_text("")
    mirror.check_out(sha, folder)
    assert (folder / "train.py").read_text() == "print(1)\n"


def test_a_checkout_that_fails_is_told(mirror: Mirror, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(MeasurementFailed, match="cannot be checked out: fatal: ") as error:
        mirror.check_out(mirror.resolve("main", "candidate").sha, tmp_path / "file" / "one")
    assert error.value.failure.reason is FailureReason.SOURCE_UNAVAILABLE


def test_the_repository_around_the_data_folder_is_never_touched(repository: Repository):
    inner = Mirror(repository.path / ".paceline", PROJECT, str(repository.path))
    inner.sync()
    sha = inner.resolve("main", "candidate").sha
    (repository.path / "train.py").write_text("my unsaved work")
    folder = repository.path / ".paceline" / "worktrees" / "one"
    folder.mkdir(parents=True)
    inner.check_out(sha, folder)
    assert (repository.path / "train.py").read_text() == "my unsaved work"
    assert (folder / "train.py").read_text() == "print(1)\n"


def test_hooks_of_the_repository_do_not_run(repository: Repository, tmp_path: Path):
    hook = repository.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\n")
    hook.chmod(0o755)
    mirror = Mirror(tmp_path / "data", PROJECT, str(repository.path))
    mirror.sync()
    (mirror.path / "hooks").mkdir(exist_ok=True)
    shutil.copy(hook, mirror.path / "hooks" / "post-checkout")
    mirror.check_out(mirror.resolve("main", "candidate").sha, tmp_path / "data" / "one")
    assert not (tmp_path / "owned").exists()


def test_no_housekeeping_starts_beside_a_measurement(mirror: Mirror, repository: Repository):
    eager = {"gc.autoPackLimit": "1", "gc.autoDetach": "false", "fetch.unpackLimit": "1"}
    for name, value in eager.items():
        Repository(mirror.path).git("config", name, value)
    for number in range(3):
        repository.commit("Go on", {"train.py": f"print({number})\n"})
        mirror.sync()
    assert len(list(mirror.path.glob("objects/pack/*.pack"))) >= 3, "they lie as they came"


def test_git_ends_with_the_worker(tmp_path: Path):
    """A clone that hangs, and a worker that is killed meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = f"http://127.0.0.1:{server.getsockname()[1]}/project.git"
        code = (
            "from pathlib import Path; from uuid import UUID; from runners.checkout import Mirror\n"
            f"Mirror(Path({str(tmp_path)!r}), UUID(int=7), {source!r}).sync()"
        )
        worker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
        server.settimeout(60)
        connection, _ = server.accept()
        with connection:
            connection.recv(1)
            worker.kill()
            worker.wait()
            connection.settimeout(30)
            while connection.recv(65536):
                pass  # its end is closed once git is gone


class Guarded(SimpleHTTPRequestHandler):
    """Serves a repository's files (git's dumb protocol) to ada with the password s3cret."""

    def do_GET(self) -> None:
        if self.headers["Authorization"] == f"Basic {b64encode(b'ada:s3cret').decode()}":
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def host(repository: Repository) -> Iterator[str]:
    """Address of a server that has the repository."""
    repository.git("update-server-info")
    handler = partial(Guarded, directory=str(repository.path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("password", ["s3cret", "wrong"])
def test_passwords_come_from_a_file_that_is_only_read(tmp_path: Path, host: str, password: str):
    credentials = tmp_path / "it's a file"
    credentials.write_text(f"http://ada:{password}@{host}\n")
    mirror = Mirror(tmp_path / "data", PROJECT, f"http://{host}/.git", credentials)
    if password == "s3cret":
        mirror.sync()
        mirror.sync()
        assert mirror.resolve("HEAD", "candidate").subject == "Start"
    else:
        with pytest.raises(MeasurementFailed, match="Authentication failed"):
            mirror.sync()
    assert credentials.read_text() == f"http://ada:{password}@{host}\n"
    assert not any("s3cret" in path.read_text() for path in mirror.path.glob("config"))
