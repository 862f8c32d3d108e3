"""The pages as a router, to be included under `/ui`. Pages are found by module name."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from dashboards import actions, assets, login, pages
from dashboards.responses import PageRoute, page
from dashboards.templating import ROOT
from service.api.access import OPEN, VisitorDep, needs
from service.domain import Scope
from service.errors import NotFound

_READ = [needs(Scope.READ)]
_FOR_EVER = "public, max-age=31536000, immutable"


def page_modules() -> Sequence[ModuleType]:
    """Every module in `dashboards/pages/`."""
    names = sorted(module.name for module in pkgutil.iter_modules(pages.__path__))
    return [importlib.import_module(f"{pages.__name__}.{name}") for name in names]


def make_router() -> APIRouter:
    """All pages, their forms and their static files."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    for module in page_modules():
        endpoint = _endpoint(module)
        router.add_api_route(module.PATH, endpoint, response_class=HTMLResponse, dependencies=_READ)
    router.include_router(login.router)
    router.include_router(actions.router)
    router.add_api_route("/static/{version}/{name}", _static, dependencies=[OPEN])
    router.add_api_route("/", lambda: RedirectResponse(ROOT), dependencies=_READ)
    router.add_api_route("/{path:path}", _unknown, dependencies=_READ)
    return router


def _endpoint(module: ModuleType) -> Callable[..., Response]:
    """Builds a page and renders it; a build that made a response itself is passed on."""

    def endpoint(visitor: VisitorDep, built: Annotated[Any, Depends(module.build)]) -> Response:
        if isinstance(built, Response):
            return built
        return page(module.TEMPLATE, vars(built), visitor=visitor)

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
