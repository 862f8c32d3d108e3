"""The tinylm example: its repository, and its trainer as two ranks under torchrun."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.tinylm.make_repository import REVISIONS, git, make_repository
from service import manifest
from workloads.records import rank_file, read


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tinylm") / "repository"
    make_repository(directory)
    return directory


def train(repository: Path, revision: str, out: Path, steps: int) -> list[float]:
    """Losses of rank 0."""
    tree = out / revision
    git(repository, "worktree", "add", "--quiet", "--detach", str(tree), revision)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["train.py", "--steps", str(steps)]
    environment = {"PACELINE_RECORDS": str(out), "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(command, cwd=tree, env=os.environ | environment, check=True, timeout=200)
    records = list(read(rank_file(out, 0)))
    assert records[-1]["num_steps"] == steps
    return [record["loss"] for record in records if record["kind"] == "step"]


def test_every_revision_is_a_child_of_base(repository: Path) -> None:
    base = git(repository, "rev-parse", "main")
    assert git(repository, "branch", "--format=%(refname:short)").split() == sorted(
        ["main", *REVISIONS]
    )
    for revision in REVISIONS:
        assert git(repository, "rev-parse", f"{revision}^") == base
        for name in git(repository, "ls-tree", "--name-only", revision).split():
            if name.endswith(".py"):
                compile(git(repository, "show", f"{revision}:{name}"), name, "exec")


def test_commits_do_not_depend_on_who_makes_them(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    commits = make_repository(tmp_path / "again")
    assert list(commits) == ["base", *REVISIONS]
    for revision, sha in commits.items():
        assert git(repository, "rev-parse", revision.replace("base", "main")) == sha


def test_an_occupied_directory_is_refused(repository: Path) -> None:
    with pytest.raises(FileExistsError):
        make_repository(repository)


def test_its_manifest_is_valid(repository: Path) -> None:
    found = manifest.parse(git(repository, "show", "main:paceline.yml"))
    (case,) = found.select(suite=None, names=None)
    assert (case.world_size, case.warmup_steps) == (2, 10)


@pytest.mark.torch
def test_it_learns_and_the_refactor_computes_the_same_bits(
    repository: Path, tmp_path: Path
) -> None:
    losses = train(repository, "main", tmp_path / "main", steps=200)
    assert sum(losses[:10]) / 10 > 4.5
    assert sum(losses[-10:]) / 10 < 2.6
    again = train(repository, "refactor", tmp_path / "refactor", steps=200)
    assert again == losses


@pytest.mark.torch
@pytest.mark.parametrize("revision", ["slow", "leak"])
def test_the_other_revisions_train_too(repository: Path, tmp_path: Path, revision: str) -> None:
    losses = train(repository, revision, tmp_path, steps=15)
    assert losses[-1] < losses[0]
