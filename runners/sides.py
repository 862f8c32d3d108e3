"""Prepares the two sides of a run: their code checked out, their Python installed."""

from collections.abc import Callable, Mapping
from functools import partial

from runners.checkout import Mirror, keep_prepared, restore_prepared
from runners.context import Worker
from runners.installation import install
from runners.pair import PreparedSide
from runners.plan import read_manifest
from service.db import models
from service.domain import Role
from service.manifest import Setup


def prepare_sides(
    run: models.Run, worker: Worker, check: Callable[[], None]
) -> Mapping[Role, PreparedSide]:
    """Check out and install both sides; each is set up by its own paceline.yml.

    Raises MeasurementFailed where that fails, and what `check` raises when the worker must stop.
    """
    mirror = Mirror(worker.data_dir, run.project_id, run.project.source)
    rows = {Role.BASELINE: run.baseline_side, Role.CANDIDATE: run.candidate_side}
    prepared = {}
    for role, side in rows.items():
        assert side is not None
        check()
        sha = side.revision.sha
        worktree = mirror.worktree(sha, worker.data_dir / "worktrees" / side.key[:20])
        own = read_manifest(mirror, mirror.resolve(sha, role))
        setup = own.setup if own is not None else Setup()
        environments = worker.data_dir / "environments"
        installation = install(setup, worktree, environments, side.key, check)
        keep_prepared(worktree)
        prepared[role] = PreparedSide(
            role=role,
            python=installation.python,
            worktree=worktree,
            restore=partial(restore_prepared, worktree),
            environment=side.environment,
            arguments=tuple(side.arguments),
            software=installation.software,
        )
    return prepared
