"""`paceline api` before it serves: production's settings only, and proxies by address."""

import sys

import pytest

from service import cli
from service.cli.api import trusted_proxies
from service.errors import Refused

POSTGRES = "postgresql+psycopg://paceline@127.0.0.1/paceline"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "PACELINE_BROKER_URL is memory://"),
        ({"BROKER_URL": "redis://127.0.0.1"}, "PACELINE_DATABASE_URL names no PostgreSQL"),
        (
            {"BROKER_URL": "redis://127.0.0.1", "DATABASE_URL": POSTGRES, "PROXY_ADDRESSES": "*"},
            "PACELINE_PROXY_ADDRESSES: '*'",
        ),
    ],
)
def test_settings_of_one_process_are_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, str],
    words: str,
):
    for name, value in settings.items():
        monkeypatch.setenv(f"PACELINE_{name}", value)
    monkeypatch.setattr(sys, "argv", ["paceline", "api"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert words in capsys.readouterr().err


def test_proxies_are_addresses_and_networks():
    assert trusted_proxies("") == []
    assert trusted_proxies("10.0.0.1, 10.1.0.0/16,::1") == ["10.0.0.1", "10.1.0.0/16", "::1"]


@pytest.mark.parametrize("addresses", ["*", "proxy.example", "10.0.0.1/8", "10.0.0.1;10.0.0.2"])
def test_anything_else_would_let_anybody_choose_their_address(addresses: str):
    with pytest.raises(Refused, match="neither an IP address nor a network"):
        trusted_proxies(addresses)
