"""Tokens on both databases: made once, proven, noted, revoked; and the first one made once only."""

import sys
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service import cli
from service.db import access as access_db
from service.db.leases import database_now
from service.db.session import Sessions
from service.domain import LOCAL, Principal, Scope
from service.errors import Conflict, Forbidden, Refused, Unauthenticated
from service.usecases import access
from tests import factories
from tests.conftest import on_sqlite
from tests.integration.production import BASE, bearer, production, token


@pytest.fixture
def app(engine: Engine) -> Iterator[FastAPI]:
    with production(engine) as made:
        yield made


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    """A client with the token `root`, which has every right."""
    made = token(app, "root", Scope.ADMIN)
    return TestClient(app, base_url=BASE, headers=bearer(made.text))


def test_a_token_proves_its_holder(sessions: Sessions):
    with sessions.begin() as session:
        made = factories.token(session, "ada", Scope.TRIAGE)
        principal = access.authenticate(session, made.text)
        assert principal == Principal(name="ada", scopes=frozenset({Scope.TRIAGE}))
        assert access.holder(session, access.log_in(session, made.text)) == principal


def test_the_secret_is_not_stored(sessions: Sessions):
    with sessions.begin() as session:
        made = factories.token(session)
        secret = made.text.rpartition("_")[2]
        assert secret not in str(vars(made.row))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"revoked_at": factories.NOON}, "was revoked"),
        ({"expires_at": factories.NOON - timedelta(days=3650)}, "expired at 2016-05-06"),
        ({"secret_sha256": "0" * 64}, "unknown"),
    ],
)
def test_a_token_that_is_worthless_says_why(
    sessions: Sessions, values: dict[str, object], word: str
):
    with sessions.begin() as session:
        made = factories.token(session, **values)
        for prove in (access.authenticate, access.log_in):
            with pytest.raises(Unauthenticated, match=word):
                prove(session, made.text)


def test_a_use_is_noted_once_a_minute(sessions: Sessions):
    with sessions.begin() as session:
        made = factories.token(session)
        assert made.row.last_used_at is None
        access.authenticate(session, made.text)
        session.refresh(made.row)
        first = made.row.last_used_at
        assert first is not None
        access.authenticate(session, made.text)
        session.refresh(made.row)
        assert made.row.last_used_at == first
        made.row.last_used_at = first - timedelta(seconds=61)
        session.flush()
        access.authenticate(session, made.text)
        session.refresh(made.row)
        assert made.row.last_used_at >= first


def test_a_token_lives_as_long_as_was_asked(sessions: Sessions):
    with sessions.begin() as session:
        made = access.create(
            session, name="ci", scopes={Scope.READ}, expires_days=30, creator=LOCAL
        )
        left = made.row.expires_at - database_now(session)  # type: ignore[operator]
    assert timedelta(days=30) - timedelta(minutes=5) < left <= timedelta(days=30)


def test_nobody_gives_away_what_they_lack(sessions: Sessions):
    creator = Principal(name="ada", scopes=frozenset({Scope.RUNS_WRITE}))
    with sessions.begin() as session:
        with pytest.raises(Forbidden, match="'ada' lacks admin, triage"):
            access.create(
                session,
                name="mine",
                scopes={Scope.READ, Scope.ADMIN, Scope.TRIAGE},
                expires_days=None,
                creator=creator,
            )
        assert not access_db.newest_tokens(session, cursor=None, limit=9).items


@on_sqlite
@pytest.mark.parametrize("name", ["local", "bootstrap"])
def test_two_names_are_taken(sessions: Sessions, name: str):
    with sessions.begin() as session, pytest.raises(Refused, match="reserved"):
        factories.token(session, name)


def test_only_one_of_many_makes_the_first_token(sessions: Sessions):
    made: list[str] = []
    refused: list[Conflict] = []
    barrier = threading.Barrier(5)

    def bootstrap() -> None:
        barrier.wait()
        try:
            with sessions.begin() as session:
                text = access.bootstrap(session).text
        except Conflict as error:
            refused.append(error)
        else:
            made.append(text)

    threads = [threading.Thread(target=bootstrap) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 4)
    with sessions.begin() as session:
        assert access.authenticate(session, made[0]).may(Scope.ADMIN)
        assert len(access_db.newest_tokens(session, cursor=None, limit=9).items) == 1


def paceline(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["paceline", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return exit_.value.code or 0  # type: ignore[return-value]


def test_the_command_prints_the_first_token_once(
    engine: Engine,
    sessions: Sessions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("PACELINE_DATABASE_URL", engine.url.render_as_string(hide_password=False))
    assert paceline(monkeypatch, "token", "bootstrap") == 0
    text = capsys.readouterr().out.strip()
    with sessions.begin() as session:
        assert access.authenticate(session, text).name == "bootstrap"
    assert paceline(monkeypatch, "token", "bootstrap") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "paceline token create" in printed.err


def test_a_database_without_the_schema_is_named(
    empty_engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(
        "PACELINE_DATABASE_URL", empty_engine.url.render_as_string(hide_password=False)
    )
    assert paceline(monkeypatch, "token", "bootstrap") == 2
    assert "paceline db upgrade" in capsys.readouterr().err


@on_sqlite
def test_the_commands_ask_with_the_configured_token(
    app: FastAPI,
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Make, use, list and revoke a token on the command line; a refusal exits with 4."""

    def connect(*, headers: dict[str, str], **_options: object) -> TestClient:
        return TestClient(app, base_url=BASE, headers=headers)

    monkeypatch.setattr("service.cli.client.httpx.Client", connect)
    monkeypatch.setenv("COLUMNS", "200")  # room for the table
    assert paceline(monkeypatch, "runs") == 4
    assert "This needs a token" in capsys.readouterr().err

    root = client.headers["authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("PACELINE_TOKEN", f"{root}\n")
    made = ["create", "ci", "--scope", "runs:write", "--scope", "triage", "--expires-days", "9"]
    assert paceline(monkeypatch, "token", *made) == 0
    text = capsys.readouterr().out.strip()
    assert client.get("/runs", headers=bearer(text)).status_code == 200

    assert paceline(monkeypatch, "token", "list") == 0
    assert "runs:write triage" in capsys.readouterr().out
    assert paceline(monkeypatch, "token", "revoke", text.split("_")[1]) == 0
    assert "ci is revoked" in capsys.readouterr().out
    assert client.get("/runs", headers=bearer(text)).status_code == 401


def test_the_life_of_a_token_over_http(client: TestClient):
    body = {"name": "ci", "scopes": ["runs:write"], "expires_days": 90}
    response = client.post("/tokens", json=body)
    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    made = response.json()
    text = made.pop("token")
    assert (made["created_by"], made["scopes"]) == ("root", ["runs:write"])
    assert client.get("/runs", headers=bearer(text)).status_code == 200

    listed = {item["name"]: item for item in client.get("/tokens").json()["items"]}
    assert set(listed) == {"ci", "root"}
    assert listed["ci"]["last_used_at"] is not None
    assert text.rpartition("_")[2] not in str(listed)

    revoked = client.post(f"/tokens/{made['id']}/revoke").json()
    assert revoked["revoked_at"] is not None
    assert client.get("/runs", headers=bearer(text)).status_code == 401
    assert client.post(f"/tokens/{made['id']}/revoke").json() == revoked
    assert client.post("/tokens", json=body).status_code == 409  # a name is for good
    assert client.post("/tokens/nowhere/revoke").status_code == 404


@on_sqlite
@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": "a b"}, "/name"),
        ({"name": "local"}, "/name"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["write"]}, "/scopes/0"),
        ({"expires_days": 0}, "/expires_days"),
        ({"expires_days": 10**9}, "/expires_days"),
        ({"expires": 5}, "/expires"),
    ],
)
def test_a_wrong_token_is_refused_by_field(
    client: TestClient, change: dict[str, object], pointer: str
):
    response = client.post("/tokens", json={"name": "ci", "scopes": ["read"], **change})
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


def test_a_run_names_who_requested_it(app: FastAPI, client: TestClient):
    with app.state.sessions.begin() as session:
        factories.project(session)
        factories.cluster(session)
    writer = bearer(token(app, "ci", Scope.RUNS_WRITE).text)
    body = {"project": "tinylm", "candidate": "faster"}
    run = client.post("/runs", json=body, headers=writer).json()
    assert run["requested_by"] == "ci"
    assert client.get("/runs").json()["items"][0]["requested_by"] == "ci"
    assert client.get(f"/runs/{run['id']}").json()["requested_by"] == "ci"
    assert "by ci" in client.get(f"/ui/runs/{run['id']}").text


@on_sqlite
def test_the_schema_says_that_a_token_is_asked_for(client: TestClient):
    schema = client.get("/openapi.json").json()
    assert schema["paths"]["/runs"]["post"]["security"] == [{"HTTPBearer": []}]
    assert "security" not in schema["paths"]["/healthz"]["get"]
