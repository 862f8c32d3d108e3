"""Prepares the two sides of a run: their code checked out, their Python installed."""

from collections.abc import Mapping
from functools import partial

from runners.bench import Check, PreparedSide
from runners.checkout import Mirror, keep_prepared, restore_prepared
from runners.context import Worker
from runners.installation import install
from runners.plan import read_manifest
from runners.shell import Shell
from service.db import models
from service.domain import Role
from service.manifest import Setup


def prepare_sides(run: models.Run, worker: Worker, check: Check) -> Mapping[Role, PreparedSide]:
    """Check out and install both sides; each is set up by its own paceline.yml.

    Raises MeasurementFailed where that fails, and what `check` raises when the worker must stop.
    """
    mirror = Mirror(worker.data_dir, run.project_id, run.project.source)
    rows = {Role.BASELINE: run.baseline_side, Role.CANDIDATE: run.candidate_side}
    shell = Shell(home=worker.data_dir / "home", slot_id=worker.slot_id, check=check)
    prepared = {}
    for role, side in rows.items():
        assert side is not None
        check()
        sha = side.revision.sha
        mirror.require(sha)
        worktree = mirror.worktree(sha, worker.data_dir / "worktrees" / side.key[:20])
        own = read_manifest(mirror, sha)
        setup = own.setup if own is not None else Setup()
        environments = worker.data_dir / "environments"
        installation = install(setup, worktree, environments, side.key, shell)
        keep_prepared(worktree)
        prepared[role] = PreparedSide(
            python=installation.python,
            worktree=worktree,
            restore=partial(restore_prepared, worktree),
            environment=side.environment,
            arguments=tuple(side.arguments),
            software=installation.software,
        )
    return prepared
