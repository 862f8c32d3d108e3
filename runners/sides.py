"""Prepares the two sides of a run: their code checked out, their Python installed."""

from collections.abc import Mapping
from functools import partial

from runners.bench import PreparedSide
from runners.checkout import Mirror
from runners.installation import install
from runners.plan import read_manifest
from runners.shell import Shell
from runners.spec import Check
from runners.worker import Worker
from runners.worktree import Worktree
from service.db import models
from service.domain import Role, content_hash
from service.manifest import Setup


def prepare_sides(run: models.Run, worker: Worker, check: Check) -> Mapping[Role, PreparedSide]:
    """Check out and install both sides; each is set up by its own paceline.yml.

    Raises MeasurementFailed where that fails, and what `check` raises when the worker must stop.
    """
    mirror = Mirror(
        worker.data_dir, run.project_id, run.project.source, worker.settings.git_credentials
    )
    baseline, candidate = run.baseline_side, run.candidate_side
    assert baseline is not None
    assert candidate is not None
    account = worker.account
    home = worker.data_dir / "homes" / f"{account.name or 'own'}-{run.project_id}"
    shell = Shell(home=home, slot_id=worker.slot_id, check=check, account=account)
    prepared = {}
    for role, side in {Role.BASELINE: baseline, Role.CANDIDATE: candidate}.items():
        check()
        # Trials that are alive together share no folder, also where a side is measured against
        # itself; and a path tells a trial nothing, so all are of equal length.
        is_twin = role is Role.CANDIDATE and side.key == baseline.key
        name = content_hash([str(worker.slot_id), side.key, is_twin])[:20]
        sha = side.revision.sha
        mirror.require(sha)
        worktree = Worktree(worker.data_dir / "worktrees" / name, account)
        worktree.make(partial(mirror.check_out, sha))
        own = read_manifest(mirror, sha)
        setup = own.setup if own is not None else Setup()
        environments = worker.data_dir / "environments"
        installation = install(setup, worktree.path, environments, name, shell)
        worktree.keep()
        prepared[role] = PreparedSide(
            python=installation.python,
            worktree=worktree.path,
            restore=worktree.restore,
            environment=side.environment,
            arguments=tuple(side.arguments),
            software=installation.software,
        )
    return prepared
