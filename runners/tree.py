"""Folders as they are: what lies in one, copied or brought back, without following a link.

    python -m runners.tree  < one JSON line: an operation and its arguments
                            > one JSON line: marks, or an error's number and words

Run so by the user whose folder it is, who can then harm nothing but that. Standard library only.
"""

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

# Of each entry, by its path below the root. All folders have the same one; a file that was written
# to has another than before, as programs cannot set a ctime.
Marks = dict[str, tuple[int, ...]]


def marks(root: Path) -> Marks:
    """What lies at and below `root`, folders before their contents."""
    found: Marks = {}
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


def copy(root: Path, target: Path) -> Marks:
    """Copy what lies at `root`, except pipes and sockets: nobody is left at their other end."""
    found = {name: mark for name, mark in marks(root).items() if _is_storable(mark)}
    _copy(found, root, target)
    return found


def restore(root: Path, source: Path, known: Marks) -> Marks:
    """Make `root` like its copy; what still has the mark that is known is left alone."""
    found = marks(root)
    touched = [name for name, mark in found.items() if known.get(name) != mark]
    _remove(root, touched)
    untouched = found.keys() - touched
    _copy([name for name in marks(source) if name not in untouched], source, root)
    return marks(root)


def clear(root: Path) -> None:
    """Remove what lies at and below `root`, if anything does."""
    _remove(root, marks(root))


def _is_storable(mark: tuple[int, ...]) -> bool:
    return not mark or stat.S_ISREG(mark[0]) or stat.S_ISLNK(mark[0])


def _remove(root: Path, names: Iterable[str]) -> None:
    """Remove these entries, named with folders before their contents."""
    for name in reversed(list(names)):
        path = root / name
        if _is_folder(path):
            path.rmdir()
        else:
            path.unlink()


def _copy(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy these entries, named with folders before their contents, as they are."""
    folders = []
    for name in names:
        if _is_folder(source / name):
            (target / name).mkdir(exist_ok=name == ".")
            folders.append(name)
        else:
            shutil.copy2(source / name, target / name, follow_symlinks=False)
    for name in reversed(folders):
        shutil.copystat(source / name, target / name)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def main() -> None:
    """Read an operation, do it, print what came of it."""
    try:
        match json.loads(sys.stdin.readline()):
            case ["marks", root]:
                answer: object = marks(Path(root))
            case ["copy", root, target]:
                answer = copy(Path(root), Path(target))
            case ["restore", root, source, known]:
                as_ours = {name: tuple(mark) for name, mark in known.items()}
                answer = restore(Path(root), Path(source), as_ours)
    except OSError as error:
        answer = [error.errno, str(error)]
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
