# ruff: noqa: E402  (torch is an extra)
"""Checkpoints refuse a folder that is none before any rank communicates."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.unit.test_workloads_loading import ranks
from workloads.data import checkpoint


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    config = checkpoint.Config(path=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="nowhere is no folder; create it where all ranks see it"):
        checkpoint.run(config, ranks(2))
