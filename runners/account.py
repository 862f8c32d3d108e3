"""The user of this machine as whom code runs that is not ours: a project's set-up, and its trials.

What such code may write is that user's; all else stays the worker's. Standard library only, since
guards are to start in a moment.
"""

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHECK = "import os, sys; [os.stat(path) for path in sys.argv[1:]]"
_READ, _RUN, _MOST = 0o444, 0o111, 0o755


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user, and how much its processes may take; 0 is no limit.

    Without a name it is the worker's own user, who may write everything already.
    """

    name: str = ""
    max_processes: int = 0
    max_file_bytes: int = 0

    @property
    def is_own(self) -> bool:
        """Whether it is the worker's."""
        return not self.name

    def start_arguments(self) -> dict[str, Any]:
        """What makes `subprocess` start a process as this user, in the user's own groups."""
        if not self.name:
            return {}
        user = pwd.getpwnam(self.name)
        groups = os.getgrouplist(self.name, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}

    def give(self, *roots: Path) -> None:
        """Make what lies at and below each root this user's. All of it is ours."""
        if self.name:
            user = pwd.getpwnam(self.name)
            for root in roots:
                _own(root, user.pw_uid, user.pw_gid)

    def take_back(self, root: Path) -> None:
        """Make what lies at and below `root` ours again: for all to read, and nobody to write."""
        if self.name:
            _own(root, os.geteuid(), os.getegid(), is_shared=True)

    def let_pass(self, folder: Path) -> None:
        """Let this user reach what lies below a folder of ours, but not list the folder."""
        if self.name:
            folder.chmod(0o711)

    def lacks(self, *paths: Path) -> str | None:
        """Why this user cannot run our Python or reach the paths; None where it can."""
        scratch = f"{tempfile.gettempdir()}/."  # it must be passed through, not only be there
        argv = [sys.executable, "-I", "-c", _CHECK, scratch, *map(str, paths)]
        start = self.start_arguments()
        try:
            result = subprocess.run(argv, cwd="/", env={}, capture_output=True, text=True, **start)
        except OSError as error:
            return str(error)
        return result.stderr.strip().rpartition("\n")[2] if result.returncode else None


OWN = Account()


def _own(root: Path, uid: int, gid: int, *, is_shared: bool = False) -> None:
    """Change owners from the top down, following no link: what lies there may not be ours.

    An entry is opened before it is changed, so it cannot become another one in between.
    """
    os.chown(root, uid, gid, follow_symlinks=False)
    if not stat.S_ISDIR(root.lstat().st_mode):
        return
    if is_shared:
        root.chmod(_shared(root.lstat().st_mode))
    for _, folders, files, parent in os.fwalk(root):
        for name in folders + files:
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)
                continue
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            entry = os.open(name, flags, dir_fd=parent)
            try:
                os.fchown(entry, uid, gid)
                if is_shared:
                    os.fchmod(entry, _shared(os.fstat(entry).st_mode))
            finally:
                os.close(entry)


def _shared(mode: int) -> int:
    """The mode of what all may read and only its owner may write; nothing is set-user-ID."""
    may_run = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
    return (mode | _READ | (_RUN if may_run else 0) | stat.S_IWUSR) & _MOST
