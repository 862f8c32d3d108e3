"""Talks to the service over HTTP."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import httpx_sse

from service.config import Settings
from service.errors import PacelineError, ServiceUnreachable

_LIMIT = 200
_STREAM = "text/event-stream"


class RequestFailed(PacelineError):
    """The service refused a request; the text is its problem's detail."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Client:
    """The service at the configured URL, asked with the configured token."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.resolved_url
        token = settings.token.get_secret_value().strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=30.0)

    def get(self, path: str, **parameters: Any) -> Any:
        """JSON of a GET. Raises RequestFailed, and ServiceUnreachable, which may pass."""
        return self._json("GET", path, params=parameters)

    def post(self, path: str, body: Any = None) -> Any:
        """JSON of a POST. Raises RequestFailed and ServiceUnreachable."""
        return self._json("POST", path, json=body)

    def put(self, path: str, body: Any) -> Any:
        """JSON of a PUT. Raises RequestFailed and ServiceUnreachable."""
        return self._json("PUT", path, json=body)

    def delete(self, path: str) -> Any:
        """JSON of a DELETE. Raises RequestFailed and ServiceUnreachable."""
        return self._json("DELETE", path)

    @contextmanager
    def events(
        self, path: str, seen: str | None = None
    ) -> Iterator[Iterator[httpx_sse.ServerSentEvent]]:
        """Server-sent events of a stream, from after the one with the id `seen`, to its end.

        A connection that is lost ends it, too. Raises RequestFailed and ServiceUnreachable.
        """
        headers = {"Last-Event-ID": seen} if seen else {}
        with ExitStack() as stack:
            try:
                opened = httpx_sse.connect_sse(self._http, "GET", path, headers=headers)
                source = stack.enter_context(opened)
            except httpx.RequestError as error:
                raise self._unreachable(error) from error
            self._check(source.response, _STREAM)
            yield _until_lost(source)

    def items(self, path: str) -> Iterator[Any]:
        """All items of a list, part by part. Raises RequestFailed and ServiceUnreachable."""
        cursor: dict[str, str] = {}
        while True:
            page = self.get(path, limit=_LIMIT, **cursor)
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}

    def project_here(self, folder: Path) -> str:
        """Name of the project whose source is `folder` or holds it. Raises RequestFailed."""
        projects = self.items("/projects")
        sources = {Path(item["source"]).resolve(): item["name"] for item in projects}
        folder = folder.resolve()
        for candidate in (folder, *folder.parents):
            if candidate in sources:
                name: str = sources[candidate]
                return name
        detail = (
            f"{folder} belongs to no project. Name one with --project, or register this one: "
            "paceline project add ."
        )
        raise RequestFailed(404, detail)

    def _json(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = self._http.request(method, path, **options)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        self._check(response, "application/json")
        return response.json()

    def _unreachable(self, error: httpx.RequestError) -> ServiceUnreachable:
        text = f"Nothing answers at {self.url}; start the service with `paceline up`. ({error})"
        return ServiceUnreachable(text)

    def _check(self, response: httpx.Response, kind: str) -> None:
        """Raises RequestFailed and ServiceUnreachable where it is not what was asked for."""
        if response.is_error:
            kind = "application/problem+json"
        if not response.headers.get("content-type", "").startswith(kind):
            text = (
                f"What answers at {self.url} (with {response.status_code}) is not Paceline, but "
                "another program or a proxy; see PACELINE_URL, PACELINE_HOST and PACELINE_PORT."
            )
            raise ServiceUnreachable(text)
        if response.is_error:
            detail = _detail(json.loads(response.read()))
            if response.is_server_error:
                raise ServiceUnreachable(detail)
            raise RequestFailed(response.status_code, detail)


def _until_lost(source: httpx_sse.EventSource) -> Iterator[httpx_sse.ServerSentEvent]:
    """An event without data is none (WHATWG HTML, 9.2.6), though httpx-sse hands it on."""
    with suppress(httpx.RequestError):
        yield from (event for event in source.iter_sse() if event.data)


def _detail(problem: dict[str, Any]) -> str:
    """A problem in words, with the offending fields."""
    detail = problem.get("detail", "The request failed.")
    wrong = [item for item in problem.get("errors", ()) if item["detail"] != detail]
    return " ".join([detail, *(f"{item['pointer']}: {item['detail']}" for item in wrong)])
