"""A side's worktree, brought back before every trial to what its set-up left."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runners import tree
from runners.account import OWN, Account
from runners.variables import of_ours

_ROOT = Path(__file__).parents[1]


class Worktree:
    """A commit checked out at `path`, and a copy of it as it was once set up.

    Git has no part in restoring: what it ignores and what it cannot store, such as empty folders,
    belongs to the side too, and a trial may have changed whatever git would go by.

    The worktree is the account's and the copy is ours, for all to read. Where the account is not
    our own, we touch nothing in its worktree: it does so itself.
    """

    def __init__(self, path: Path, account: Account = OWN) -> None:
        self.path = path
        self._account = account
        self._copy = path.with_name(f"{path.name}.prepared")
        self._marks: tree.Marks = {}  # of what is as it was kept

    def make(self, check_out: Callable[[Path], None]) -> None:
        """Lay the side out as an earlier set-up left it, or else as `check_out` does."""
        if not self._copy.exists():
            self._clear(self.path)
            check_out(self.path)
            self._account.give(self.path)
            return
        if not self._account.is_own:  # either may be another user's, of an earlier setting
            self._clear(self.path)
            self._account.take_back(self._copy)
        self.restore()

    def keep(self) -> None:
        """Remember what lies there, after the set-up: built files belong to the side."""
        if self._do("marks", self.path) == self._marks:  # the set-up was an earlier one
            return
        partial = self._copy.with_suffix(".partial")
        self._clear(partial)
        if self._copy.exists():  # a copy that is half gone must not be taken for a whole one
            self._copy.rename(partial)
            self._clear(partial)
        self._new_folder(partial)
        self._marks = self._do("copy", self.path, partial)
        self._account.take_back(partial)
        partial.rename(self._copy)

    def restore(self) -> None:
        """Bring the worktree back to what `keep` saw; what was not touched is left alone.

        A checkpoint that one trial leaves must not be what the next one resumes from.
        """
        if not os.path.lexists(self.path):
            self._new_folder(self.path)
        self._marks = self._do("restore", self.path, self._copy, self._marks)

    def _new_folder(self, path: Path) -> None:
        path.mkdir(parents=True)
        self._account.give(path)

    def _clear(self, path: Path) -> None:
        if self._account.is_own:
            tree.clear(path)
        elif os.path.lexists(path):
            shutil.rmtree(path)  # which follows no link, however fast its owner makes one

    def _do(self, operation: str, *arguments: Any) -> tree.Marks:
        """An operation of `tree` by the account. Raises OSError as it does."""
        if self._account.is_own:
            found: tree.Marks = getattr(tree, operation)(*arguments)
            return found
        words = [a if isinstance(a, dict) else str(a) for a in arguments]
        answer = json.loads(
            subprocess.run(
                [sys.executable, "-m", "runners.tree"],
                cwd=_ROOT,
                env=of_ours(),
                input=json.dumps([operation, *words]) + "\n",
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                **self._account.start_arguments(),
            ).stdout
        )
        if isinstance(answer, list):
            raise OSError(*answer)
        return {name: tuple(mark) for name, mark in answer.items()}
