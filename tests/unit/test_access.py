"""Scopes, the form of a token, logins and the forms bound to them: what needs no database."""

import re

import pytest
from fastapi import APIRouter, FastAPI
from pydantic import SecretStr

from dashboards.login import _own_path
from service.api import access, login
from service.api.access import OPEN, needs
from service.config import Settings
from service.domain import Principal, Scope
from service.errors import Refused
from service.usecases.access import TokenText, parse

KEY = "k" * 32
TEXT = f"pl_{'0a' * 6}_{'1b' * 32}"


def settings(**values: object) -> Settings:
    return Settings(**{"broker_url": "redis://localhost", **values})  # type: ignore[arg-type]


class TestScopes:
    @pytest.mark.parametrize(
        ("held", "rights"),
        [
            ({Scope.READ}, {"read"}),
            ({Scope.RUNS_WRITE}, {"read", "runs:write"}),
            ({Scope.TRIAGE}, {"read", "triage"}),
            ({Scope.TRIAGE, Scope.RUNS_WRITE}, {"read", "triage", "runs:write"}),
            ({Scope.ADMIN}, {"read", "triage", "runs:write", "admin"}),
            (set(), set()),
        ],
    )
    def test_what_the_holder_may(self, held: set[Scope], rights: set[str]):
        principal = Principal(name="ada", scopes=frozenset(held))
        assert {scope for scope in Scope if principal.may(scope)} == rights


class TestTokenText:
    def test_it_reads_back(self):
        text = TokenText(ident="0a" * 6, secret="1b" * 32)
        assert str(text) == TEXT
        assert parse(TEXT) == text

    def test_the_digest_is_of_the_secret_alone(self):
        one, other = TokenText(ident="a", secret="s"), TokenText(ident="b", secret="s")
        assert one.secret_sha256 == other.secret_sha256
        assert re.fullmatch("[0-9a-f]{64}", one.secret_sha256)

    @pytest.mark.parametrize(
        "text",
        ["", "pl_", "pl__", TEXT[:-1], TEXT + "0", TEXT + "\n", " " + TEXT, TEXT.upper(),
         TEXT.replace("pl_", "px_"), TEXT.replace("_", "-"), TEXT.replace("1b", "1g"), "é" * 80],
    )  # fmt: skip
    def test_what_is_none(self, text: str):
        assert parse(text) is None


class TestLogin:
    def test_it_names_the_token(self):
        assert login.token_id(KEY, login.issue(KEY, "0a0a")) == "0a0a"
        assert login.token_id(KEY, login.issue(KEY)) == login.NOBODY

    def test_the_cookie_holds_no_secret_and_no_two_are_alike(self):
        assert login.issue(KEY, "0a0a") != login.issue(KEY, "0a0a")

    @pytest.mark.parametrize("position", [0, 5, -40, -2])
    def test_a_changed_cookie_is_none(self, position: int):
        cookie = login.issue(KEY, "0a0a")
        other = "A" if cookie[position] != "A" else "B"
        changed = cookie[:position] + other + cookie[position:][1:]
        assert login.token_id(KEY, changed) is None

    @pytest.mark.parametrize("cookie", ["", ".", "a.b.c", "é", "0a0a"])
    def test_what_is_no_cookie(self, cookie: str):
        assert login.token_id(KEY, cookie) is None

    def test_another_key_signs_another_service(self):
        assert login.token_id("x" * 32, login.issue(KEY, "0a0a")) is None

    @pytest.mark.parametrize(("age_s", "lives"), [(0, True), (43_200, True), (43_201, False)])
    def test_it_ends_after_twelve_hours(
        self, monkeypatch: pytest.MonkeyPatch, age_s: int, lives: bool
    ):
        monkeypatch.setattr("itsdangerous.timed.time.time", lambda: 1_800_000_000)
        cookie = login.issue(KEY, "0a0a")
        monkeypatch.setattr("itsdangerous.timed.time.time", lambda: 1_800_000_000 + age_s)
        assert (login.token_id(KEY, cookie) == "0a0a") is lives

    def test_a_form_belongs_to_one_login(self):
        mine, other = login.issue(KEY, "0a0a"), login.issue(KEY, "0a0a")
        token = login.form_token(KEY, mine)
        assert login.is_form_token(KEY, mine, token)
        assert not login.is_form_token(KEY, other, token)
        assert not login.is_form_token("x" * 32, mine, token)
        assert not login.is_form_token(KEY, mine, "")

    def test_a_cookie_is_no_form_token_of_another(self):
        cookie = login.issue(KEY, "0a0a")
        payload, _, signature = cookie.rpartition(".")
        assert not login.is_form_token(KEY, payload, signature)


@pytest.mark.parametrize(
    "path", ["/ui", "/ui/", "/ui?project=a%20b", "/ui/runs/1?pair=3", "/ui/..%2f"]
)
def test_a_login_leads_on_to_a_page_of_ours(path: str):
    assert _own_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", "/", "//evil.example", "https://evil.example/ui", "/\\evil.example", "/ui\\evil",
     "/ui/\t/evil.example", "/ui\n", "/ui/\r\nSet-Cookie: a=b", "/uix", "/ui.evil.example", "ui",
     "/\t/evil.example", "javascript:alert(1)", "/ui/é"],
)  # fmt: skip
def test_and_nowhere_else(path: str):
    assert _own_path(path) == "/ui"


class TestSettings:
    def test_standalone_asks_no_token_and_makes_a_key_of_its_own(self):
        one, other = access.from_settings(Settings()), access.from_settings(Settings())
        assert not one.asks_token
        assert one.key != other.key

    @pytest.mark.parametrize("key", ["", "k" * 31])
    def test_production_needs_a_key(self, key: str):
        with pytest.raises(Refused, match=r"secrets\.token_urlsafe") as refusal:
            access.from_settings(settings(secret_key=SecretStr(key)))
        assert "PACELINE_SECRET_KEY" in str(refusal.value)

    def test_with_a_key_it_asks_for_tokens(self):
        found = access.from_settings(settings(secret_key=SecretStr(KEY)))
        assert found == access.Access(asks_token=True, key=KEY)

    def test_secrets_are_not_printed(self):
        text = repr(settings(secret_key=SecretStr(KEY), token=SecretStr(TEXT)))
        assert KEY not in text
        assert TEXT not in text


class TestDeclarations:
    @pytest.mark.parametrize("declarations", [[], [OPEN, needs(Scope.READ)], [OPEN, OPEN]])
    def test_a_route_says_one_thing(self, declarations: list[object]):
        app, router = FastAPI(openapi_url=None), APIRouter()
        router.add_api_route("/new", lambda: None, dependencies=declarations)
        app.include_router(router, prefix="/below")
        with pytest.raises(RuntimeError, match="/below/new must declare"):
            access.check(app)

    def test_a_part_that_knows_no_dependencies_says_nothing(self):
        app = FastAPI(openapi_url=None)
        app.mount("/mounted", FastAPI())
        with pytest.raises(RuntimeError, match="/mounted must declare"):
            access.check(app)

    @pytest.mark.parametrize("declaration", [OPEN, needs(Scope.TRIAGE)])
    def test_either_will_do(self, declaration: object):
        app = FastAPI(openapi_url=None)
        app.add_api_route("/new", lambda: None, dependencies=[declaration])  # type: ignore[list-item]
        access.check(app)
