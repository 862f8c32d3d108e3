"""Git: a mirror per project and a worktree per side. Argument vectors only, revisions validated."""

import json
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from uuid import UUID

from runners.lock import alone
from runners.variables import of_git
from service.domain import Failure, FailureReason
from service.errors import MeasurementFailed
from service.usecases.runs import ResolvedRevision

_SHA = re.compile(r"^([0-9a-f]{40}|[0-9a-f]{64})$")
_TIMEOUT_S = 600.0


class Mirror:
    """A bare copy of a project's repository."""

    def __init__(self, data_dir: Path, project_id: UUID, source: str) -> None:
        self.path = data_dir.absolute() / "mirrors" / f"{project_id}.git"
        self._source = source

    def sync(self) -> None:
        """Bring the mirror up to date. Raises MeasurementFailed where the source cannot be had."""
        try:
            with alone(self.path):
                if not self.path.exists():
                    partial = self.path.with_suffix(".partial")
                    shutil.rmtree(partial, ignore_errors=True)
                    _git("clone", "--mirror", "--quiet", "--", self._source, str(partial))
                    partial.rename(self.path)
                else:
                    self._run("fetch", "--quiet", "--prune", "origin")
        except (OSError, subprocess.SubprocessError) as error:
            detail = f"The project's source {self._source} cannot be fetched: {_words(error)}"
            raise MeasurementFailed(
                Failure(reason=FailureReason.SOURCE_UNAVAILABLE, detail=detail)
            ) from error

    def require(self, sha: str) -> None:
        """Have a commit that another machine's mirror resolved. Raises MeasurementFailed."""
        if self.path.exists() and self._holds(sha):
            return
        self.sync()
        if not self._holds(sha):
            detail = (
                f"The commit {sha} is in {self._source} no more; a branch was probably rewritten "
                "after the run was asked for. Ask again for what stands there now."
            )
            raise MeasurementFailed(Failure(reason=FailureReason.UNKNOWN_REVISION, detail=detail))

    def _holds(self, sha: str) -> bool:
        try:
            self._run("cat-file", "-e", f"{_valid(sha)}^{{commit}}")
        except subprocess.CalledProcessError:
            return False
        return True

    def resolve(self, revision: str, role: str) -> ResolvedRevision:
        """The commit a revision names. Raises MeasurementFailed for one that does not exist."""
        try:
            if revision.startswith("-"):
                raise ValueError("it begins with '-'")
            name = f"{revision}^{{commit}}"
            sha = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", name).strip()
        except (subprocess.SubprocessError, OSError, ValueError) as error:  # NUL; far too long
            detail = (
                f"The {role} {revision[:250]!r} is no commit of {self._source}. Name a branch, a "
                "tag or a sha that has been committed (and pushed)."
            )
            raise MeasurementFailed(
                Failure(reason=FailureReason.UNKNOWN_REVISION, detail=detail)
            ) from error
        fields = self._run("show", "--no-patch", "--format=%s%x00%an%x00%cI", _valid(sha))
        subject, author, committed_at = fields.strip().split("\0")
        return ResolvedRevision(
            sha=sha,
            subject=subject,
            author=author,
            committed_at=datetime.fromisoformat(committed_at),
        )

    def read(self, sha: str, path: str) -> str | None:
        """Text of a file in a commit; None where it has no such file."""
        try:
            return self._run("show", f"{_valid(sha)}:{path}")
        except subprocess.CalledProcessError:
            return None

    def worktree(self, sha: str, path: Path) -> Path:
        """A checkout of a commit at `path`. One that is there is used again, its files restored."""
        with alone(path):
            try:
                _in_worktree(path, "reset", "--hard", "--quiet", _valid(sha))
            except subprocess.CalledProcessError:  # it is not there, or was left half made
                shutil.rmtree(path, ignore_errors=True)
                _snapshot_file(path).unlink(missing_ok=True)
                self._run("worktree", "prune")
                self._run("worktree", "add", "--quiet", "--force", "--detach", str(path), sha)
        return path

    def _run(self, *arguments: str) -> str:
        return _git("--git-dir", str(self.path), *arguments)


def keep_prepared(worktree: Path) -> None:
    """Remember what lies in a worktree, once, after its set-up: built files belong to the side."""
    file = _snapshot_file(worktree)
    if not file.exists():
        file.write_text(json.dumps(sorted(_others(worktree))))


def restore_prepared(worktree: Path) -> None:
    """Bring a worktree back to what `keep_prepared` saw.

    A checkpoint that one trial leaves must not be what the next one resumes from.
    """
    _in_worktree(worktree, "reset", "--hard", "--quiet")
    kept = set(json.loads(_snapshot_file(worktree).read_text()))
    for name in _others(worktree) - kept:
        path = worktree / name
        if path.is_dir() and not path.is_symlink():  # a repository of its own
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _others(worktree: Path) -> set[str]:
    """Files that git does not track, ignored ones included."""
    return set(filter(None, _in_worktree(worktree, "ls-files", "--others", "-z").split("\0")))


def _snapshot_file(worktree: Path) -> Path:
    return worktree.with_name(f"{worktree.name}.prepared.json")


def _in_worktree(path: Path, *arguments: str) -> str:
    return _git("--git-dir", str(path / ".git"), "--work-tree", str(path), *arguments)


def _git(*arguments: str) -> str:
    result = subprocess.run(
        ["git", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", *arguments],
        env=of_git(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
        timeout=_TIMEOUT_S,
    )
    return result.stdout


def _valid(sha: str) -> str:
    if not _SHA.match(sha):
        raise ValueError(f"{sha!r} is not a full sha")
    return sha


def _words(error: Exception) -> str:
    text = getattr(error, "stderr", None) or str(error)
    return str(text).strip().splitlines()[-1] if str(text).strip() else type(error).__name__
