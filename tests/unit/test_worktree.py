"""A worktree before every trial: what the set-up left, whatever the last trial did."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.worktree import Worktree


def check_out(folder: Path) -> None:
    """Stands in for git."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print(1)\n")
    (folder / "version.py").write_text("version = 0\n")


def set_up(folder: Path) -> None:
    (folder / "version.py").write_text("version = 1\n")
    (folder / "built.so").write_text("by the set-up")
    (folder / "run").symlink_to("src/train.py")
    (folder / "empty").mkdir()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "worktrees" / "one"


@pytest.fixture
def worktree(folder: Path) -> Worktree:
    made = Worktree(folder)
    made.make(check_out)
    set_up(folder)
    made.keep()
    return made


def contents(folder: Path) -> dict[str, object]:
    """Every file, link and folder of a folder."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = path.readlink()
        else:
            found[name] = path.read_text() if path.is_file() else path.is_dir()
    return found


def write_in_place(folder: Path) -> None:
    """Same length, and the old time put back."""
    path = folder / "built.so"
    before = path.stat()
    path.write_text("by the trial!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def odd_names(folder: Path) -> None:
    for name in (b"\xff.ckpt", b"a\rb", b"a\nb", b"-rf"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).touch()


def locked(folder: Path) -> None:
    (folder / "out" / "deep").mkdir(parents=True)
    (folder / "out" / "deep" / "file").touch()
    (folder / "src").chmod(0)
    (folder / "out" / "deep").chmod(0o500)
    (folder / "out").chmod(0)


def folder_for_file(folder: Path) -> None:
    (folder / "built.so").unlink()
    (folder / "built.so").mkdir()
    (folder / "built.so" / "file").touch()


def link_for_folder(folder: Path) -> None:
    (folder / "src").rename(folder.parent / "elsewhere")
    (folder / "src").symlink_to(folder.parent / "elsewhere")


def link_for_all(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


def special_files(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))


@pytest.mark.parametrize(
    "trial",
    [
        write_in_place,
        odd_names,
        locked,
        folder_for_file,
        link_for_folder,
        link_for_all,
        special_files,
        lambda folder: (folder / "version.py").write_text("tracked, and edited by the set-up"),
        lambda folder: (folder / "src" / "train.py").unlink(),
        lambda folder: (folder / "empty").rmdir(),
        lambda folder: (folder / "run").unlink(),
        lambda folder: (folder / "src" / "train.py").chmod(0o755),
        lambda folder: (folder / "new").hardlink_to(folder / "built.so"),
        lambda folder: folder.rename(folder.parent / "gone"),
    ],
)
def test_what_a_trial_does_is_undone(
    worktree: Worktree, folder: Path, trial: Callable[[Path], object]
):
    before, mode = contents(folder), (folder / "src" / "train.py").stat().st_mode
    trial(folder)
    worktree.restore()
    assert contents(folder) == before
    assert (folder / "src" / "train.py").stat().st_mode == mode
    assert not folder.is_symlink()
    elsewhere = folder.parent / "elsewhere"
    assert not elsewhere.exists() or any(elsewhere.iterdir()), "links are not followed"


def test_a_trainer_may_make_its_folder_in_every_trial(worktree: Worktree, folder: Path):
    for _ in range(2):
        worktree.restore()
        (folder / "out").mkdir()


def test_what_was_not_touched_is_not_written_again(worktree: Worktree, folder: Path):
    """Dirty pages would be written out beside the trial that follows."""
    before = (folder / "built.so").stat()
    (folder / "checkpoint.pt").touch()
    worktree.restore()
    assert (folder / "built.so").stat() == before


def test_a_later_run_takes_up_what_the_set_up_left(worktree: Worktree, folder: Path):
    before = contents(folder)
    (folder / "checkpoint.pt").write_text("resume me")
    later = Worktree(folder)
    later.make(lambda _folder: pytest.fail("it is there already"))
    assert contents(folder) == before
    later.keep()
    later.restore()
    assert contents(folder) == before


def test_a_set_up_that_was_run_again_is_kept(worktree: Worktree, folder: Path):
    later = Worktree(folder)
    later.make(check_out)
    (folder / "built.so").write_text("anew")
    later.keep()
    (folder / "built.so").unlink()
    later.restore()
    assert (folder / "built.so").read_text() == "anew"


def test_what_was_left_half_made_is_made_anew(worktree: Worktree, folder: Path):
    """Killed while it copied, or while it removed an earlier copy: both lie under this name."""
    partial = folder.with_name("one.partial")
    folder.with_name("one.prepared").rename(partial)
    (partial / "built.so").unlink()
    (folder / "src" / "train.py").unlink()
    later = Worktree(folder)
    later.make(check_out)
    assert (folder / "src" / "train.py").read_text() == "print(1)\n"
    assert not (folder / "built.so").exists()
    set_up(folder)
    later.keep()
    assert not partial.exists()


def test_times_and_modes_are_kept(worktree: Worktree, folder: Path):
    os.utime(folder / "built.so", (5, 5))
    (folder / "built.so").chmod(0o751)
    worktree.keep()
    (folder / "built.so").unlink()
    worktree.restore()
    found = (folder / "built.so").stat()
    assert (found.st_mtime, found.st_mode & 0o777) == (5, 0o751)


def test_pipes_of_the_set_up_are_not_kept(worktree: Worktree, folder: Path):
    special_files(folder)
    worktree.keep()
    worktree.restore()
    assert not (folder / "pipe").exists()
    assert (folder / "built.so").exists()
