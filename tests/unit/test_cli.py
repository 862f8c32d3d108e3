"""The command line's answers to a caller's mistakes: a sentence and an exit code, no traceback."""

import sys

import pytest

from service import cli


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["paceline", *arguments])
    monkeypatch.setenv("PACELINE_URL", "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    code = exit_.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize("revisions", ["main", "main..", "..main", "main...other"])
def test_revisions_that_are_no_pair_are_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], revisions: str
):
    assert run(monkeypatch, "compare", revisions) == 2
    assert "BASE..CANDIDATE" in capsys.readouterr().err


def test_a_service_that_is_not_there_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert run(monkeypatch, "runs") == 5
    assert "paceline up" in capsys.readouterr().err


def test_an_unknown_command_is_a_usage_error(monkeypatch: pytest.MonkeyPatch):
    assert run(monkeypatch, "frobnicate") == 2
