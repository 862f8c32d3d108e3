"""Settings: where things are, and values that are refused with a remedy."""

from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError
from sqlalchemy import make_url

from service.config import LOOPBACK, Settings

DURATIONS = [name for name in Settings.model_fields if name.endswith("_s")]


def refusal(**values: object) -> str:
    with pytest.raises(ValidationError) as refused:
        Settings(**values)  # type: ignore[arg-type]
    (error,) = refused.value.errors()
    assert error["loc"] == tuple(values)[-1:]
    return error["msg"]


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%b", "a%23b", "a b", "ü"])
def test_the_database_lies_in_the_data_folder_whatever_its_name(tmp_path: Path, name: str):
    url = make_url(Settings(data_dir=tmp_path / name).resolved_database_url)
    assert url.database == str(tmp_path / name / "paceline.db")
    assert not url.query


def test_a_database_that_is_named_is_used_as_it_is():
    url = "postgresql+psycopg://ada:pass%20word@/db?host=/run"
    assert Settings(database_url=url).resolved_database_url == url


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/name", "postgres", "oracle://x"])
def test_a_database_of_another_kind(url: str):
    assert "postgresql+psycopg://" in refusal(database_url=url)


@pytest.mark.parametrize("host", LOOPBACK)
def test_a_host_can_be_asked_under_its_url(host: str):
    url = httpx.URL(Settings(host=host, port=80).resolved_url)
    assert (url.host, url.scheme) == (host, "http")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", ""])
def test_standalone_listens_on_this_machine_only(host: str):
    assert "no token" in refusal(host=host)
    redis = "redis://127.0.0.1"
    assert Settings(broker_url=redis, host=host).host == host


@pytest.mark.parametrize(
    "url", ["http://[::1", "localhost:8321", "ftp://host", "http://", "http://host:99999"]
)
def test_a_url_that_no_service_has(url: str):
    assert refusal(url=url)


@pytest.mark.parametrize("url", ["http://[::1]:8321", "https://paceline.example.org/base"])
def test_a_url_of_a_service(url: str):
    assert Settings(url=url).resolved_url == url


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("value", ["inf", "nan", "1e12", "-1"])
def test_durations_are_finite(name: str, value: str):
    assert refusal(**{name: value})


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_ports_are_those_of_tcp(port: int):
    assert refusal(port=port)
