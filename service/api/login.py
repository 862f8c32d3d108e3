"""A login: a signed cookie that names a token by its public id. Forms are bound to it.

The cookie says that the token was shown once; whether it still lives is asked at every request.
A browser that is not logged in gets a cookie without a token, to which its login form is bound.
"""

import secrets

from fastapi import Request, Response
from itsdangerous import BadData, Signer, URLSafeTimedSerializer

COOKIE = "paceline_login"
LIFETIME_S = 12 * 60 * 60
NOBODY = ""


def issue(key: str, token_id: str = NOBODY) -> str:
    """A cookie for the holder of that token. No two are alike, so no two share a form's token."""
    text = _serializer(key).dumps([secrets.token_urlsafe(16), token_id])
    assert isinstance(text, str)
    return text


def token_id(key: str, cookie: str) -> str | None:
    """Public id of a cookie's token, or NOBODY; None where the cookie is not ours or too old."""
    try:
        _, found = _serializer(key).loads(cookie, max_age=LIFETIME_S)
    except BadData:
        return None
    return str(found)


def form_token(key: str, cookie: str) -> str:
    """What the forms on a page shown to this cookie carry."""
    return _signer(key).get_signature(cookie).decode()


def is_form_token(key: str, cookie: str, text: str) -> bool:
    """Whether a form was on a page shown to this cookie."""
    return _signer(key).verify_signature(cookie, text)


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Have the browser keep a login.

    SameSite is Lax, not Strict, so that a link to a run in a chat or a pull request opens it.
    """
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=LIFETIME_S,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


def _serializer(key: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(key, salt="paceline.login")


def _signer(key: str) -> Signer:
    return Signer(key, salt="paceline.form")
