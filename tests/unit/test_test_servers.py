"""Where the tests' own servers come from."""

import importlib.util
from pathlib import Path

import pytest

from tests import postgres


@pytest.mark.parametrize(("versions", "found"), [((), None), (("9.6", "15", "17"), "17")])
def test_without_the_wheel_debians_newest_postgresql_serves(
    versions: tuple[str, ...], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for version in versions:
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    monkeypatch.setattr(postgres, "_DEBIAN", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert postgres.binaries() == (None if found is None else tmp_path / found / "bin")
