"""doctor on databases of both kinds, and its answer as a script reads it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from service import cli
from service.config import Settings
from service.doctor import stores
from service.doctor.finding import Level


def levels(engine: Engine) -> dict[str, Level]:
    url = engine.url.render_as_string(hide_password=False)
    found = stores.database(Settings(database_url=url))
    return {finding.check: finding.level for finding in found}


def test_a_migrated_database_is_well(engine: Engine):
    assert levels(engine) == dict.fromkeys(("database", "schema", "clock"), Level.OK)


def test_a_database_without_our_schema_fails_with_the_command(empty_engine: Engine):
    empty_engine.connect().close()  # SQLite makes the file
    url = empty_engine.url.render_as_string(hide_password=False)
    (schema,) = [f for f in stores.database(Settings(database_url=url)) if f.check == "schema"]
    assert (schema.level, schema.remedy) == (Level.FAILURE, "paceline db upgrade")


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_restore_that_was_cut_off_sends_to_the_manual(engine: Engine):
    with engine.begin() as connection:
        connection.execute(sa.text("create schema paceline_before_restore"))
    url = engine.url.render_as_string(hide_password=False)
    (schema,) = [f for f in stores.database(Settings(database_url=url)) if f.check == "schema"]
    assert schema.level is Level.FAILURE
    assert "docs/operations.md" in schema.remedy


def test_a_database_that_does_not_answer_hides_its_password():
    url = "postgresql+psycopg://paceline:secret@127.0.0.1:9/paceline"
    (finding,) = stores.database(Settings(database_url=url))
    assert finding.level is Level.FAILURE
    assert "PACELINE_DATABASE_URL" in finding.remedy
    assert "secret" not in finding.detail


def test_a_standalone_database_is_not_made_by_looking(tmp_path: Path):
    (finding,) = stores.database(Settings(data_dir=tmp_path))
    assert finding.level is Level.WARNING
    assert list(tmp_path.iterdir()) == []


def doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["paceline", "doctor", "--no-measuring", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0), capsys.readouterr().out


def test_a_warning_is_no_failure(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("PACELINE_DATABASE_URL", engine.url.render_as_string(hide_password=False))
    monkeypatch.setenv("PACELINE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PACELINE_URL", "http://127.0.0.1:9")
    code, output = doctor(monkeypatch, capsys, "--json")
    findings: list[dict[str, Any]] = json.loads(output)
    assert code == 0, findings
    assert findings[0]["level"] == "warning"
    assert "service" in {finding["check"] for finding in findings if finding["remedy"]}
    assert all(set(finding) == {"check", "level", "detail", "remedy"} for finding in findings)


def test_a_failure_is_the_first_line_and_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PACELINE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PACELINE_BROKER_URL", "redis://127.0.0.1:9/0")
    monkeypatch.setenv("COLUMNS", "200")
    code, output = doctor(monkeypatch, capsys)
    assert code == 1
    assert output.splitlines()[1].split()[:3] == ["broker", "✗", "failure"]
    assert "PACELINE_BROKER_URL" in output
