"""Routing, static files and what cannot be found; no page here reaches a database."""

import gzip
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from dashboards import assets
from dashboards.router import make_router, page_modules
from dashboards.templating import render
from service.api.access import Access
from service.api.deps import get_artifacts, get_session
from service.errors import NotFound


def no_session() -> Iterator[None]:
    yield None


@pytest.fixture
def get():
    """Asks the pages, mounted as the service mounts them."""
    app = FastAPI()
    app.state.access = Access(asks_token=False, key="k" * 32)
    app.dependency_overrides |= {get_session: no_session, get_artifacts: lambda: None}
    app.include_router(make_router(), prefix="/ui")

    client = TestClient(app, follow_redirects=False)
    return lambda path, **headers: client.get(path, headers=headers)


@pytest.mark.parametrize("page", page_modules(), ids=lambda page: page.__name__)
def test_every_page_keeps_the_contract(page):
    assert page.PATH == "" or page.PATH.startswith("/")
    assert is_dataclass(page.Context)
    assert page.Context.__dataclass_params__.frozen
    assert fields(page.Context)
    assert next(iter(inspect.signature(page.build).parameters)) == "session"
    assert page.TEMPLATE.endswith(".html")


def test_plotly_comes_from_the_wheel_compressed_and_for_ever(get):
    response = get(f"/ui{assets.path('plotly.min.js')}", **{"accept-encoding": "gzip"})
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-type"].startswith("text/javascript")
    assert len(response.content) > 1_000_000
    assert int(response.headers["content-length"]) < 2_000_000


def test_a_client_that_does_not_unpack_gets_the_file_itself(get):
    response = get(f"/ui{assets.path('paceline.css')}", **{"accept-encoding": "identity"})
    assert "content-encoding" not in response.headers
    assert response.content == assets.asset("paceline.css").content


def test_an_older_page_gets_todays_file_but_does_not_keep_it(get):
    response = get("/ui/static/0123456789abcdef/paceline.css")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-cache"


def test_the_version_of_an_asset_is_its_content():
    asset = assets.asset("paceline.js")
    assert gzip.decompress(asset.gzipped) == asset.content
    assert asset.version in assets.path("paceline.js")


@pytest.mark.parametrize(
    "path",
    ["/ui/nothing", "/ui/runs/not-an-id", "/ui/artifacts/x", "/ui/static/v/x.js", "/ui?cursor=x"],
)
def test_what_cannot_be_found_is_a_page_that_helps(get, path):
    response = get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "All runs" in response.text
    assert "Traceback" not in response.text


def test_a_missing_run_is_a_page_that_helps(get, monkeypatch):
    def missing(_session, run_id):
        raise NotFound("run", run_id)

    monkeypatch.setattr("service.db.reading.run_detail", missing)
    response = get("/ui/runs/00000000-0000-0000-0000-000000000001")
    assert response.status_code == 404
    assert "There is no such run" in response.text


def test_pages_allow_no_foreign_and_no_inline_script(get):
    policy = get("/ui/nothing").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy


def test_the_slash_at_the_end_leads_to_the_runs(get):
    response = get("/ui/")
    assert (response.status_code, response.headers["location"]) == (307, "/ui")


def test_what_was_not_found_is_shown_as_text():
    html = render("not_found.html", {"kind": "run", "ident": "<script>x</script>"})
    assert "&lt;script&gt;x" in html
