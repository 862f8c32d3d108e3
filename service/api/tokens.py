"""/tokens: make, list and revoke the tokens that others ask with."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api import examples
from service.api.access import PrincipalDep, needs
from service.api.deps import JSON_ONLY, SessionDep
from service.api.described import NEXT, REFUSALS, UNKNOWN, example, problems
from service.api.fields import Name, Text
from service.api.lists import Listing, PageQueryDep, listing
from service.db import access as access_db
from service.domain import Scope
from service.usecases import access

router = APIRouter(prefix="/tokens", tags=["tokens"])


class TokenBody(BaseModel):
    """A token to make. Without `expires_days` it lives until it is revoked."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "ci", "scopes": ["read", "runs:write"]}]},
    )

    name: Name
    scopes: Annotated[set[Scope], Field(min_length=1)]
    expires_days: int | None = Field(None, ge=1, le=3650)


class TokenView(BaseModel):
    """A token without its secret."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    scopes: Sequence[Scope]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewTokenView(TokenView):
    """A token that was just made; `token` is what its holder sends, and is shown here only."""

    token: str


_TOKEN = TokenView(
    id="5f0c9a12b7de",
    name="ci",
    scopes=[Scope.READ, Scope.RUNS_WRITE],
    created_by="ada",
    created_at=examples.QUEUED.created_at,
    expires_at=None,
    revoked_at=None,
    last_used_at=None,
)
_NEW = NewTokenView(token="pl_<id>_<secret>", **_TOKEN.model_dump())


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    operation_id="create_token",
    dependencies=[needs(Scope.ADMIN), JSON_ONLY],
    responses=example(HTTPStatus.CREATED, _NEW) | problems(*REFUSALS),
)
def create_token(
    body: TokenBody, session: SessionDep, principal: PrincipalDep, response: Response
) -> NewTokenView:
    """Make a token, with no scope that you lack."""
    made = access.create(session, creator=principal, **body.model_dump())
    response.headers["Cache-Control"] = "no-store"
    return NewTokenView(token=made.text, **TokenView.model_validate(made.row).model_dump())


@router.get(
    "",
    operation_id="list_tokens",
    dependencies=[needs(Scope.ADMIN), JSON_ONLY],
    responses=example(HTTPStatus.OK, Listing(items=[_TOKEN], next_cursor=None), Link=NEXT)
    | problems(HTTPStatus.UNPROCESSABLE_ENTITY),
)
def list_tokens(
    session: SessionDep, query: PageQueryDep, request: Request, response: Response
) -> Listing[TokenView]:
    """Tokens, newest first, revoked and expired ones too."""
    page = access_db.newest_tokens(session, cursor=query.place, limit=query.limit)
    return listing(page.map(TokenView.model_validate), request, response)


@router.post(
    "/{token_id}/revoke",
    operation_id="revoke_token",
    dependencies=[needs(Scope.ADMIN), JSON_ONLY],
    responses=example(HTTPStatus.OK, _TOKEN) | problems(*UNKNOWN),
)
def revoke_token(token_id: Text, session: SessionDep) -> TokenView:
    """Make a token worthless at once. It stays listed, since runs name who requested them."""
    return TokenView.model_validate(access.revoke(session, token_id))
