"""`paceline report` on a stored run: what it reads, and what it says where there is none."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from dashboards.report import render
from service import cli
from service.artifacts import ArtifactStore
from service.db.session import Sessions, transaction
from service.domain import Role
from service.usecases import recording
from service.usecases.recording import StoredFile
from tests import factories
from tests.conftest import on_sqlite

Paceline = Callable[..., int]


@pytest.fixture
def paceline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Paceline:
    """Runs the command line in an empty folder; its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["paceline", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code

    return run


def test_a_log_that_is_gone_is_told_as_on_the_pages(sessions: Sessions, tmp_path: Path):
    with transaction(sessions, factories.unsent) as session:
        job = factories.job(session)
        log = StoredFile(kind="log", name="log.txt", path="gone/log.txt", num_bytes=9)
        failed = replace(factories.failed_trial(Role.CANDIDATE), files=(log,))
        recording.record_solo(session, job, job.job_cases[0].case_id, failed)
    with sessions() as session:
        html = render(session, [job.run_id], "Report", ArtifactStore(str(tmp_path)))
    assert "This log is no longer in the artifact store." in html


@on_sqlite
def test_it_says_which_database_it_reads(
    engine: Engine,
    sessions: Sessions,
    paceline: Paceline,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    with transaction(sessions, factories.unsent) as session:
        run = factories.run(session)
    monkeypatch.setenv("PACELINE_DATABASE_URL", str(engine.url))
    assert paceline("report", str(run.id)) == 0
    captured = capsys.readouterr()
    assert captured.err == f"Reading {engine.url}.\n"
    assert f"run-{str(run.id)[:8]}" in Path(captured.out.strip()).read_text()
    assert paceline("report", str(uuid4())) == 2
    assert "There is no run" in capsys.readouterr().err


def test_elsewhere_it_says_how_to_name_the_data(
    paceline: Paceline, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert paceline("report", str(uuid4())) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path}/.paceline/paceline.db" in error
    assert "PACELINE_DATA_DIR" in error
    assert not (tmp_path / ".paceline").exists()
