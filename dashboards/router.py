"""The pages as a router, to be included under `/ui`. Pages are found by module name."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from types import ModuleType
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from sqlalchemy.orm import Session
from starlette.responses import Response

from dashboards import assets, pages
from dashboards.pages.artifact import ReadArtifact
from dashboards.templating import ROOT, render
from service.errors import NotFound

_HEADERS = {
    # Plotly sets styles from its script; everything else comes from files of ours.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_FOR_EVER = "public, max-age=31536000, immutable"


def page_modules() -> Sequence[ModuleType]:
    """Every module in `dashboards/pages/`."""
    names = sorted(module.name for module in pkgutil.iter_modules(pages.__path__))
    return [importlib.import_module(f"{pages.__name__}.{name}") for name in names]


def make_router(
    get_session: Callable[..., Iterator[Session]], read_artifact: ReadArtifact
) -> APIRouter:
    """All pages and their static files.

    Of a page's `build` the arguments named here are given; the others are its path's and query's.
    """
    given = {
        "session": Annotated[Session, Depends(get_session, scope="function")],
        "read_artifact": Annotated[Any, Depends(lambda: read_artifact)],
    }
    router = APIRouter(route_class=_PageRoute, include_in_schema=False)
    for page in page_modules():
        router.add_api_route(page.PATH, _endpoint(page, given), response_class=HTMLResponse)
    router.add_api_route("/static/{version}/{name}", _static)
    router.add_api_route("/", lambda: RedirectResponse(ROOT))
    router.add_api_route("/{path:path}", _unknown)
    return router


def _endpoint(page: ModuleType, given: dict[str, Any]) -> Callable[..., Response]:
    """Builds a page and renders it; a build that made a response itself is passed on."""

    def endpoint(**arguments: Any) -> Response:
        built = page.build(**arguments)
        if isinstance(built, Response):
            return built
        return HTMLResponse(render(page.TEMPLATE, vars(built)), headers=_HEADERS)

    signature = inspect.signature(page.build)
    parameters = [
        parameter.replace(
            annotation=given.get(name, parameter.annotation), kind=inspect.Parameter.KEYWORD_ONLY
        )
        for name, parameter in signature.parameters.items()
    ]
    endpoint.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=parameters, return_annotation=Response
    )
    return endpoint


class _PageRoute(APIRoute):
    """Answers what cannot be found as a page, where the API would send a problem document."""

    def get_route_handler(self) -> Callable[..., Any]:
        handle = super().get_route_handler()

        async def page_or_not_found(request: Request) -> Response:
            try:
                return await handle(request)
            except NotFound as error:
                return _not_found(error.kind, error.ident)
            except RequestValidationError:
                return _not_found("page", request.url.path)

        return page_or_not_found


def _not_found(kind: str, ident: str) -> Response:
    html = render("not_found.html", {"kind": kind, "ident": ident})
    return HTMLResponse(html, status_code=HTTPStatus.NOT_FOUND, headers=_HEADERS)


def _unknown(path: str) -> Response:
    raise NotFound("page", f"{ROOT}/{path}")


def _static(version: str, name: str, request: Request) -> Response:
    """A static file. One of another version, asked for by an older page, is not kept for ever."""
    asset = assets.asset(name)
    if asset is None:
        raise NotFound("static file", name)
    headers = {
        "Cache-Control": _FOR_EVER if version == asset.version else "no-cache",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(asset.content, media_type=asset.media_type, headers=headers)
    headers["Content-Encoding"] = "gzip"
    return Response(asset.gzipped, media_type=asset.media_type, headers=headers)
