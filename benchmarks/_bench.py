"""This checkout as both sides of a bench, for figures about how we measure."""

import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from runners.artifacts import RunArtifacts
from runners.bench import Bench, PreparedSide
from runners.launchers import local
from runners.library import library
from runners.spec import Limits
from service.artifacts import ArtifactStore
from service.domain import Role

ROOT = Path(__file__).parents[1]


def make_bench(
    folder: Path,
    arguments: Mapping[Role, tuple[str, ...]],
    environment: Mapping[str, str] | None = None,
) -> Bench:
    """A bench whose files lie in `folder`; the sides differ in their arguments only.

    `environment` is added to the variables of both.
    """
    sides = {
        role: PreparedSide(
            python=Path(sys.executable),
            worktree=ROOT,
            environment=environment or {},
            arguments=arguments[role],
            software={},
        )
        for role in Role
    }
    return Bench(
        sides=sides,
        launcher=local,
        library=library(folder),
        limits=Limits(start_s=180, stall_s=60, kill_grace_s=10),
        artifacts=RunArtifacts(ArtifactStore(f"file://{folder}"), "bench"),
        slot_id=UUID(int=0),
        check=lambda: None,
    )
