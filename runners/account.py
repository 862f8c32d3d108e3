"""The user of this machine as whom code runs that is not ours: a project's set-up, and its trials.

What such code may write is that user's; all else stays the worker's. Standard library only, since
guards are to start in a moment.
"""

import os
import pwd
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHECK = "import os, sys; [os.stat(path) for path in sys.argv[1:]]"


@dataclass(frozen=True)
class Account:
    """A user by name; without one it is the worker's own, who may write everything already."""

    name: str = ""

    def start_arguments(self) -> dict[str, Any]:
        """What makes `subprocess` start a process as this user, in the user's own groups."""
        if not self.name:
            return {}
        user = pwd.getpwnam(self.name)
        groups = os.getgrouplist(self.name, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}

    def give(self, *roots: Path) -> None:
        """Make what lies at and below each root this user's."""
        if self.name:
            user = pwd.getpwnam(self.name)
            for root in roots:
                _own(root, user.pw_uid, user.pw_gid)

    def take_back(self, root: Path) -> None:
        """Make what lies at and below `root` the worker's again."""
        if self.name:
            _own(root, os.geteuid(), os.getegid())

    def let_pass(self, folder: Path) -> None:
        """Let this user reach what lies below a folder of the worker's, but not list the folder."""
        if self.name:
            folder.chmod(0o711)

    def lacks(self, *paths: Path) -> str | None:
        """Why this user cannot run our Python or reach the paths; None where it can."""
        argv = [sys.executable, "-I", "-c", _CHECK, *map(str, paths)]
        start = self.start_arguments()
        try:
            result = subprocess.run(argv, cwd="/", env={}, capture_output=True, text=True, **start)
        except OSError as error:
            return str(error)
        return result.stderr.strip().rpartition("\n")[2] if result.returncode else None


OWN = Account()


def _own(root: Path, uid: int, gid: int) -> None:
    """Change owners without following a link: what lies there may not be ours."""
    os.chown(root, uid, gid, follow_symlinks=False)
    if not stat.S_ISDIR(root.lstat().st_mode):
        return
    for _, folders, files, descriptor in os.fwalk(root):
        for name in folders + files:
            os.chown(name, uid, gid, dir_fd=descriptor, follow_symlinks=False)
