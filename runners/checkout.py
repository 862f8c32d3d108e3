"""Git: a mirror per project. Argument vectors only, revisions validated."""

import re
import shlex
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from runners.lock import alone
from runners.shell import run
from runners.variables import of_git
from service.domain import Failure, FailureReason
from service.errors import MeasurementFailed
from service.usecases.runs import ResolvedRevision

_SHA = re.compile(r"^([0-9a-f]{40}|[0-9a-f]{64})$")
_TIMEOUT_S = 600.0
_HEAD = "refs/paceline/head"  # where the source's HEAD stands
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)  # a day of room for every time zone
_NO_FILES = {"120000": "a symbolic link", "040000": "a folder", "160000": "a submodule"}
# Nothing of a repository's runs here, and no housekeeping starts beside a measurement.
_GIT = (
    *("git", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)


class Mirror:
    """A bare copy of a project's repository."""

    def __init__(
        self, data_dir: Path, project_id: UUID, source: str, credentials: Path | None = None
    ) -> None:
        self.path = data_dir.absolute() / "mirrors" / f"{project_id}.git"
        self._source = source
        self._credentials = credentials

    def sync(self) -> None:
        """Bring the mirror up to date. Raises MeasurementFailed where the source cannot be had."""
        goal = f"The project's source {self._source} cannot be fetched"
        try:
            with alone(self.path):
                if not self.path.exists():
                    partial = self.path.with_suffix(".partial")
                    shutil.rmtree(partial, ignore_errors=True)
                    arguments = ("clone", "--mirror", "--quiet", "--", self._source, str(partial))
                    self._work(goal, *arguments)
                    partial.rename(self.path)
                at = ("--git-dir", str(self.path))
                # `fetch` never moves a mirror's HEAD, and fails where the source's names nothing.
                refs = ["+refs/*:refs/*"]
                if "\tHEAD" in self._work(goal, *at, "ls-remote", "--quiet", "origin", "HEAD"):
                    refs.append(f"+HEAD:{_HEAD}")
                self._work(goal, *at, "fetch", "--quiet", "--prune", "origin", *refs)
                self._ask("symbolic-ref", "HEAD", _HEAD)
        except OSError as error:
            raise _failed(FailureReason.SOURCE_UNAVAILABLE, f"{goal}: {error}") from error

    def has(self, sha: str) -> bool:
        """Whether a commit is here."""
        try:
            self._ask("cat-file", "-e", f"{_valid(sha)}^{{commit}}")
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    def require(self, sha: str) -> None:
        """Have a commit that another machine's mirror resolved. Raises MeasurementFailed."""
        if self.has(sha):
            return
        self.sync()
        if not self.has(sha):
            detail = (
                f"The commit {sha} is in {self._source} no more; a branch was probably rewritten "
                "after the run was asked for. Ask again for what stands there now."
            )
            raise MeasurementFailed(Failure(reason=FailureReason.UNKNOWN_REVISION, detail=detail))

    def resolve(self, revision: str, role: str) -> ResolvedRevision:
        """The commit a revision names. Raises MeasurementFailed for one that does not exist."""
        try:
            if revision.startswith("-"):
                raise ValueError("it begins with '-'")
            name = f"{revision}^{{commit}}"
            found = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        except (subprocess.SubprocessError, OSError, ValueError) as error:  # NUL; far too long
            detail = (
                f"The {role} {revision[:250]!r} is no commit of {self._source}. Name a branch, a "
                "tag or a sha that has been committed (and pushed)."
            )
            raise _failed(FailureReason.UNKNOWN_REVISION, detail) from error
        sha = found.decode().strip()
        fields = self._ask("show", "--no-patch", "--format=%s%x00%an%x00%ct", _valid(sha))
        subject, author, committed_s = fields.decode(errors="replace").strip().split("\0")
        return ResolvedRevision(
            sha=sha, subject=subject, author=author, committed_at=_time(committed_s)
        )

    def read(self, sha: str, path: str) -> str | None:
        """Text of a file in a commit; None where it has no such file. Raises MeasurementFailed."""
        entry = self._ask("ls-tree", "-z", "--full-tree", _valid(sha), "--", path)
        if not entry:
            return None
        mode, _, blob = entry.partition(b"\t")[0].decode().split()
        what = _NO_FILES.get(mode)
        if what is None:
            try:
                return self._ask("cat-file", "blob", blob).decode()
            except UnicodeDecodeError as error:
                what = f"not UTF-8 at byte {error.start}"
        detail = f"{path} of {sha[:10]} is {what}; commit it as a plain file in UTF-8."
        raise _failed(FailureReason.BAD_MANIFEST, detail)

    def check_out(self, sha: str, path: Path) -> None:
        """Make a worktree of a commit at `path`, where nothing lies. Raises MeasurementFailed.

        Forced twice: git may remember a worktree there that was left half made, and locked.
        """
        arguments = ("worktree", "add", "--quiet", "--force", "--force", "--detach", str(path))
        goal = f"Commit {sha[:10]} cannot be checked out"
        self._work(goal, "--git-dir", str(self.path), *arguments, _valid(sha))

    def _ask(self, *arguments: str) -> bytes:
        """Answer of a short command that changes no files."""
        return subprocess.run(
            [*_GIT, "--git-dir", str(self.path), *arguments],
            env=of_git(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_TIMEOUT_S,
        ).stdout

    def _work(self, goal: str, *arguments: str) -> str:
        """Output of a command that may take long. Raises MeasurementFailed."""
        argv = [*_GIT, *self._credential_options(), *arguments]
        ran = run(argv, of_git(), Path("/"), timeout_s=_TIMEOUT_S)
        if ran.failed is not None:
            words = " ".join(ran.output.split())[-500:] or ran.failed
            raise _failed(FailureReason.SOURCE_UNAVAILABLE, f"{goal}: {words}")
        return ran.output

    def _credential_options(self) -> list[str]:
        """Makes git look up credentials in the file, but not erase there what a host refused."""
        if self._credentials is None:
            return []
        file = shlex.quote(str(self._credentials.absolute()))
        helper = f'!f() {{ test "$1" != get || git credential-store --file={file} get; }}; f'
        return ["-c", f"credential.helper={helper}"]


def _time(seconds: str) -> datetime:
    """When a commit was made; git keeps any number for it, or none."""
    return datetime.fromtimestamp(min(max(int(seconds or 0), 0), _LATEST.timestamp()), UTC)


def _valid(sha: str) -> str:
    if not _SHA.match(sha):
        raise ValueError(f"{sha!r} is not a full sha")
    return sha


def _failed(reason: FailureReason, detail: str) -> MeasurementFailed:
    return MeasurementFailed(Failure(reason=reason, detail=detail))
