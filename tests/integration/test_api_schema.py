"""/openapi.json describes every route, and every route keeps to it."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi_checks
from starlette.testclient import TestClient

from tests.api import BODY
from tests.conftest import on_sqlite

pytestmark = on_sqlite
HOST = {"host": "127.0.0.1"}
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
]
SETTINGS = settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def api(app: FastAPI) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST)


def operations(app: FastAPI) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in app.openapi()["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_every_operation_is_named_and_described(app: FastAPI):
    found = dict(operations(app))
    names = [operation["operationId"] for operation in found.values()]
    assert len(names) == len(set(names)) >= 11
    for name, operation in found.items():
        assert operation["description"].endswith("."), name
        for parameter in operation.get("parameters", ()):
            is_described = "description" in parameter or parameter["in"] == "path"
            assert is_described, (name, parameter["name"])


def test_every_body_and_answer_has_an_example(app: FastAPI):
    schemas = app.openapi()["components"]["schemas"]
    for name, operation in operations(app):
        for status, answer in operation["responses"].items():
            (content,) = answer["content"].values()
            assert content["example"], (name, status)
        if "requestBody" in operation:
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            assert schemas[reference.rpartition("/")[2]]["examples"], name


def test_every_error_is_a_problem(app: FastAPI):
    for name, operation in operations(app):
        responses = operation["responses"]
        assert "default" in responses, name
        for status, answer in responses.items():
            is_stream = operation["operationId"] == "follow_run"
            kind = "text/event-stream" if is_stream else "application/json"
            kind = kind if status.startswith("2") else "application/problem+json"
            assert list(answer["content"]) == [kind], (name, status)
    assert "HTTPValidationError" not in app.openapi()["components"]["schemas"]


def test_answers_are_as_described(api: Any, client: TestClient):
    run = client.post("/runs", json=BODY)
    api["/runs"]["POST"].validate_response(run)
    ident = run.json()["id"]
    api["/runs/{run_id}"]["GET"].validate_response(client.get(f"/runs/{ident}"))
    api["/runs/{run_id}/events"]["GET"].validate_response(client.get(f"/runs/{ident}/events"))
    api["/runs"]["GET"].validate_response(client.get("/runs"))
    api["/runs/{run_id}/cancel"]["POST"].validate_response(client.post(f"/runs/{ident}/cancel"))


def can_be_wrong(operation: Any) -> bool:
    """Whether it has a body or query; any text may stand in most paths."""
    raw = operation.definition.raw
    return "requestBody" in raw or any(item["in"] == "query" for item in raw.get("parameters", ()))


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_whatever_is_sent_the_answer_is_as_described(api: Any, mode: GenerationMode):
    operations = [result.ok() for result in api.get_all_operations()]
    sent_to = [item for item in operations if mode.is_positive or can_be_wrong(item)]
    assert len(sent_to) >= 5
    for operation in sent_to:

        @SETTINGS
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers_as_described(case: Any) -> None:
            case.call_and_validate(headers=HOST, checks=CHECKS)

        answers_as_described()
