"""A side's worktree, brought back before every trial to what its set-up left."""

import os
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from runners.account import OWN, Account

_Mark = tuple[int, ...]


class Worktree:
    """A commit checked out at `path`, and a copy of it as it was once set up.

    Git has no part in restoring: what it ignores and what it cannot store, such as empty folders,
    belongs to the side too, and a trial may have changed whatever git would go by.
    """

    def __init__(self, path: Path, account: Account = OWN) -> None:
        self.path = path
        self._account = account  # whose the worktree is; the copy is ours
        self._copy = path.with_name(f"{path.name}.prepared")
        self._marks: dict[str, _Mark] = {}  # of what is as it was kept

    def make(self, check_out: Callable[[Path], None]) -> None:
        """Lay the side out as an earlier set-up left it, or else as `check_out` does."""
        if self._copy.exists():
            self.restore()
        else:
            _clear(self.path)
            check_out(self.path)
            self._account.give(self.path)

    def keep(self) -> None:
        """Remember what lies there, after the set-up: built files belong to the side."""
        found = _marks(self.path)
        if found == self._marks:  # the set-up was an earlier one
            return
        partial = self._copy.with_suffix(".partial")
        _clear(partial)
        if self._copy.exists():  # a copy that is half gone must not be taken for a whole one
            self._copy.rename(partial)
            _clear(partial)
        # Pipes and sockets are left out: nobody is left at their other end.
        self._marks = {name: mark for name, mark in found.items() if _is_storable(mark)}
        _copy(self._marks, self.path, partial, OWN)
        partial.rename(self._copy)

    def restore(self) -> None:
        """Bring the worktree back to what `keep` saw; what was not touched is left alone.

        A checkpoint that one trial leaves must not be what the next one resumes from.
        """
        found = _marks(self.path)
        touched = [name for name, mark in found.items() if self._marks.get(name) != mark]
        _remove(self.path, touched)
        untouched = found.keys() - touched
        kept = _marks(self._copy)
        missing = [name for name in kept if name not in untouched]
        _copy(missing, self._copy, self.path, self._account)
        self._marks = _marks(self.path)


def _marks(root: Path) -> dict[str, _Mark]:
    """What lies at and below `root`, folders before their contents. They all have the same mark.

    A file that was written to has another mark than before: programs cannot set a ctime.
    """
    found: dict[str, _Mark] = {}
    todo = ["."] if os.path.lexists(root) else []
    while todo:
        name = todo.pop()
        path = root / name
        facts = path.lstat()
        if stat.S_ISDIR(facts.st_mode):
            if facts.st_mode & stat.S_IRWXU != stat.S_IRWXU:  # a program locked it
                path.chmod(stat.S_IMODE(facts.st_mode) | stat.S_IRWXU)
            found[name] = ()
            todo += [f"{name}/{child.name}" for child in path.iterdir()]
        else:
            times = (facts.st_mtime_ns, facts.st_ctime_ns)
            found[name] = (facts.st_mode, facts.st_ino, facts.st_size, *times)
    return found


def _is_storable(mark: _Mark) -> bool:
    return not mark or stat.S_ISREG(mark[0]) or stat.S_ISLNK(mark[0])


def _clear(root: Path) -> None:
    _remove(root, _marks(root))


def _remove(root: Path, names: Iterable[str]) -> None:
    """Remove these entries, given with folders before their contents."""
    for name in reversed(list(names)):
        path = root / name
        if _is_folder(path):
            path.rmdir()
        else:
            path.unlink()


def _copy(names: Iterable[str], source: Path, target: Path, owner: Account) -> None:
    """Copy these entries, named with folders before their contents, as they are."""
    folders = []
    for name in names:
        if _is_folder(source / name):
            (target / name).mkdir()
            folders.append(name)
        else:
            shutil.copy2(source / name, target / name, follow_symlinks=False)
        owner.give(target / name)
    for name in reversed(folders):
        shutil.copystat(source / name, target / name)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
