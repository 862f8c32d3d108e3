"""The pages as a router, to be included under `/ui`. Pages are found by module name."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session
from starlette.responses import Response

from dashboards import actions, assets, login, pages
from dashboards.pages.artifact import ReadArtifact
from dashboards.responses import PageRoute, page
from dashboards.templating import ROOT
from service.api.access import OPEN, Visitor, VisitorDep, needs
from service.domain import Scope
from service.errors import NotFound

_READ = [needs(Scope.READ)]
_FOR_EVER = "public, max-age=31536000, immutable"


def page_modules() -> Sequence[ModuleType]:
    """Every module in `dashboards/pages/`."""
    names = sorted(module.name for module in pkgutil.iter_modules(pages.__path__))
    return [importlib.import_module(f"{pages.__name__}.{name}") for name in names]


def make_router(
    get_session: Callable[..., Iterator[Session]], read_artifact: ReadArtifact
) -> APIRouter:
    """All pages, their forms and their static files.

    Of a page's `build` the arguments named here are given; the others are its path's and query's.
    """
    given = {
        "session": Annotated[Session, Depends(get_session, scope="function")],
        "read_artifact": Annotated[Any, Depends(lambda: read_artifact)],
    }
    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    for module in page_modules():
        endpoint = _endpoint(module, given)
        router.add_api_route(module.PATH, endpoint, response_class=HTMLResponse, dependencies=_READ)
    router.include_router(login.router)
    router.include_router(actions.router)
    router.add_api_route("/static/{version}/{name}", _static, dependencies=[OPEN])
    router.add_api_route("/", lambda: RedirectResponse(ROOT), dependencies=_READ)
    router.add_api_route("/{path:path}", _unknown, dependencies=_READ)
    return router


def _endpoint(module: ModuleType, given: dict[str, Any]) -> Callable[..., Response]:
    """Builds a page and renders it; a build that made a response itself is passed on."""

    def endpoint(visitor: Visitor, **arguments: Any) -> Response:
        built = module.build(**arguments)
        if isinstance(built, Response):
            return built
        return page(module.TEMPLATE, vars(built), visitor=visitor)

    signature = inspect.signature(module.build)
    parameters = [
        parameter.replace(
            annotation=given.get(name, parameter.annotation), kind=inspect.Parameter.KEYWORD_ONLY
        )
        for name, parameter in signature.parameters.items()
    ]
    visitor = inspect.Parameter("visitor", inspect.Parameter.KEYWORD_ONLY, annotation=VisitorDep)
    endpoint.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[visitor, *parameters], return_annotation=Response
    )
    return endpoint


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
