"""Makes the git repository of the tinylm example: python make_repository.py DIRECTORY

main holds base/ with Paceline's two modules vendored; each patch in revisions/ becomes a branch of
its own on top of it. Dates and author are fixed, so that the same sources give the same commits.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parents[1] / "workloads"
REVISIONS = ("refactor", "slow", "leak")
GIT_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Tiny Trainer",
    "GIT_AUTHOR_EMAIL": "tiny@example.org",
    "GIT_COMMITTER_NAME": "Tiny Trainer",
    "GIT_COMMITTER_EMAIL": "tiny@example.org",
}


def make_repository(directory: Path) -> dict[str, str]:
    """Commit of each revision: base and REVISIONS, children of base on branches of their name.

    Raises FileExistsError where `directory` holds anything already.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    git(directory, "init", "--initial-branch=main", "--object-format=sha1", "--template=")
    shutil.copytree(HERE / "base", directory, ignore=no_caches, dirs_exist_ok=True)
    for name in ("turns", "records"):
        shutil.copyfile(WORKLOADS / f"{name}.py", directory / f"paceline_{name}.py")
    commits = {"base": commit(directory, "Train a small language model on bytes", hour=9)}

    for hour, name in enumerate(REVISIONS, start=10):
        patch = HERE / "revisions" / f"{name}.patch"
        message, _ = patch.read_text(encoding="utf-8").split("\n---\n")
        git(directory, "switch", "--quiet", "--create", name, "main")
        git(directory, "apply", str(patch))
        commits[name] = commit(directory, message, hour)
    git(directory, "switch", "--quiet", "main")
    return commits


def no_caches(_: str, names: list[str]) -> list[str]:
    """What running or linting the sources in place leaves behind."""
    return [name for name in names if name.startswith((".", "__"))]


def commit(directory: Path, message: str, hour: int) -> str:
    """Commit the whole work tree at that hour of a fixed day; its sha."""
    date = f"2026-01-05T{hour:02}:00:00+0000"
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", f"--message={message}", **dates)
    return git(directory, "rev-parse", "HEAD")


def git(directory: Path, *arguments: str, **environment: str) -> str:
    """Output of a git command that sees nothing of the user's configuration."""
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments],
        env=GIT_ENVIRONMENT | environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    for revision, sha in make_repository(Path(sys.argv[1])).items():
        print(f"{revision:10}{sha}")
