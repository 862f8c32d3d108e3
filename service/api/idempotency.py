"""Requests that may be repeated: draft-ietf-httpapi-idempotency-key-header-07."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Header, HTTPException, Request, Response
from pydantic import BaseModel
from sqlalchemy.orm import Session

from service.api.access import PrincipalDep
from service.domain import content_hash
from service.usecases.idempotency import HEADER, Answer, answer_once

# A string of RFC 8941, or what people send: a UUID or another token, without the quotes.
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~:/-]+")
_LONGEST = 255


@dataclass(frozen=True, kw_only=True)
class Repeatable:
    """A request to `target` (method and path), and the key that tells when it is the same again."""

    target: str
    principal: str
    key: str | None

    def answer(self, session: Session, body: BaseModel, make: Callable[[], Answer]) -> Response:
        """What `make` answers; where the request has come before, what it was answered then."""
        if self.key is None:
            return _response(make())
        answer = answer_once(
            session,
            principal=self.principal,
            key=self.key,
            fingerprint=content_hash([self.target, body.model_dump(mode="json")]),
            make=make,
        )
        return _response(answer)


def repeatable(
    request: Request,
    principal: PrincipalDep,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias=HEADER,
            description="Makes the request safe to repeat: a quoted string or a UUID, new for "
            "every request. A repeated one gets the first answer, with "
            "`Idempotency-Replayed: true`.",
            examples=["8e03978e-40d5-43e8-bc93-6894a57f9324"],
        ),
    ] = None,
) -> Repeatable:
    """The request's key, unquoted. Answers 400 where it is none."""
    found = request.headers.getlist(HEADER)
    if len(found) > 1:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"Send one {HEADER}, not {len(found)}.")
    key = None if idempotency_key is None else parse(idempotency_key)
    return Repeatable(
        target=f"{request.method} {request.url.path}", principal=principal.name, key=key
    )


RepeatableDep = Annotated[Repeatable, Depends(repeatable)]


def parse(text: str) -> str:
    """The key in a header's value. Raises the 400 that says what a key looks like."""
    string = _STRING.fullmatch(text.strip())
    token = _TOKEN.fullmatch(text.strip())
    key = re.sub(r"\\(.)", r"\1", string[1]) if string else token[0] if token else ""
    if not 1 <= len(key) <= _LONGEST:
        detail = (
            f"{HEADER} must be a quoted string of 1 to {_LONGEST} printable ASCII characters, "
            "or a token such as a UUID."
        )
        raise HTTPException(HTTPStatus.BAD_REQUEST, detail)
    return key


def _response(answer: Answer) -> Response:
    headers = {"Location": answer.location}
    headers |= {"Idempotency-Replayed": "true"} if answer.is_replayed else {}
    return Response(answer.body, answer.status, headers, media_type="application/json")
