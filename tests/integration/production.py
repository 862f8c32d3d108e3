"""The service as production has it, asking for tokens, on a database of the test's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import httpx
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service.api import login
from service.config import Settings
from service.db.session import transaction
from service.main import create_app
from service.usecases.access import NewToken
from tests import factories

BASE = "http://paceline.example"
KEY = "k" * 32


@contextmanager
def production(engine: Engine) -> Iterator[FastAPI]:
    url = engine.url.render_as_string(hide_password=False)
    app = create_app(
        Settings(database_url=url, broker_url="redis://localhost", secret_key=SecretStr(KEY))
    )
    app.state.send = factories.unsent
    yield app
    app.state.engine.dispose()


def token(app: FastAPI, *arguments: object, **values: object) -> NewToken:
    """A token as `factories.token` makes it, stored."""
    with transaction(app.state.sessions, app.state.send) as session:
        return factories.token(session, *arguments, **values)  # type: ignore[arg-type]


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def logged_in(token_id: str = login.NOBODY) -> dict[str, str]:
    """Headers of a browser with that login."""
    return {"cookie": f"{login.COOKIE}={login.issue(KEY, token_id)}"}


def send_form(
    client: TestClient, path: str, headers: dict[str, str], *, method: str = "POST", **fields: str
) -> httpx.Response:
    """A form from a page that was shown to the login in these headers."""
    cookie = re.sub(rf"^{login.COOKIE}=", "", headers.get("cookie", ""))
    given = {"form_token": login.form_token(KEY, cookie), **fields}
    kind = {"content-type": "application/x-www-form-urlencoded", "origin": BASE}
    body = urlencode(given)
    return client.request(method, path, content=body, headers={**kind, **headers})
