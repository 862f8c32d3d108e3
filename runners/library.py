"""The folder through which trials see our `workloads`, and nothing else of ours.

With the whole checkout on its path, a project's own installed `service` or `runners` would be ours.
"""

import os
from pathlib import Path

_WORKLOADS = Path(__file__).parents[1] / "workloads"


def library(data_dir: Path) -> Path:
    """A folder below `data_dir` that holds `workloads`; made where it is missing or stale."""
    folder = data_dir / "library"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "workloads"
    if not link.is_symlink() or link.resolve() != _WORKLOADS:
        fresh = folder / f"workloads.{os.getpid()}"
        fresh.symlink_to(_WORKLOADS)
        fresh.replace(link)
    return folder
