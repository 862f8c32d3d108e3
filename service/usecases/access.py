"""The life of a token: made, shown once, used, expired or revoked."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.orm import Session

from service.db import access as access_db
from service.db import models
from service.db.leases import database_now
from service.domain import LOCAL, Principal, Scope
from service.errors import Conflict, Forbidden, NotFound, Refused, Unauthenticated

BOOTSTRAP = "bootstrap"
_TEXT = re.compile(r"pl_([0-9a-f]{12})_([0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True)
class TokenText:
    """A token as its holder keeps it: the public id and the secret, 256 random bits."""

    ident: str
    secret: str

    def __str__(self) -> str:
        return f"pl_{self.ident}_{self.secret}"

    @property
    def secret_sha256(self) -> str:
        """What the database keeps of the secret. A random secret needs no slow hash."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class NewToken:
    """A token that was just made, with its text, which nobody can tell later."""

    row: models.Token
    text: str


def parse(text: str) -> TokenText | None:
    """A token from its text; None where it cannot be one."""
    found = _TEXT.fullmatch(text)
    return None if found is None else TokenText(ident=found[1], secret=found[2])


def create(
    session: Session,
    *,
    name: str,
    scopes: Collection[Scope],
    expires_days: int | None,
    creator: Principal,
) -> NewToken:
    """A new token of these scopes.

    Raises Forbidden for scopes the creator lacks, Refused and Conflict for a name.
    """
    lacking = sorted(scope for scope in scopes if not creator.may(scope))
    if lacking:
        raise Forbidden(f"{creator.name!r} lacks {', '.join(lacking)} and so cannot give it away.")
    if name in (LOCAL.name, BOOTSTRAP):
        raise Refused("name", f"The name {name!r} is reserved; choose another.")
    return _store(
        session, name=name, scopes=scopes, expires_days=expires_days, created_by=creator.name
    )


def bootstrap(session: Session) -> NewToken:
    """The first token, with every right. Its unique name admits one; raises Conflict after that."""
    try:
        return _store(
            session,
            name=BOOTSTRAP,
            scopes={Scope.ADMIN},
            expires_days=None,
            created_by=BOOTSTRAP,
        )
    except Conflict as error:
        raise Conflict(
            f"The token {BOOTSTRAP!r} was made before and is shown only then. With an admin token "
            "in PACELINE_TOKEN make others: paceline token create NAME --scope admin. Where none "
            "is left, docs/operations.md tells how to start again."
        ) from error


def authenticate(session: Session, text: str) -> Principal:
    """Who holds a token. Raises Unauthenticated."""
    return _holder(session, _proven(session, text))


def log_in(session: Session, text: str) -> str:
    """Public id of a token that is valid now, for `holder`. Raises Unauthenticated."""
    row = _proven(session, text)
    _holder(session, row)
    return row.id


def holder(session: Session, ident: str) -> Principal:
    """Who holds the token of that public id, whose secret was shown at a login.

    Raises Unauthenticated.
    """
    row = access_db.token(session, ident)
    if row is None:
        raise Unauthenticated("The token of this login is unknown here.")
    return _holder(session, row)


def revoke(session: Session, ident: str) -> models.Token:
    """Make a token worthless at once. Revoking it again changes nothing. Raises NotFound."""
    row = access_db.token(session, ident)
    if row is None:
        raise NotFound("token", ident)
    row.revoked_at = row.revoked_at or database_now(session)
    return row


def _store(
    session: Session,
    *,
    name: str,
    scopes: Collection[Scope],
    expires_days: int | None,
    created_by: str,
) -> NewToken:
    text = TokenText(ident=secrets.token_hex(6), secret=secrets.token_hex(32))
    now = database_now(session)
    row = models.Token(
        id=text.ident,
        name=name,
        secret_sha256=text.secret_sha256,
        scopes=sorted(scopes),
        created_by=created_by,
        created_at=now,
        expires_at=None if expires_days is None else now + timedelta(days=expires_days),
    )
    access_db.add(session, row)
    return NewToken(row=row, text=str(text))


def _proven(session: Session, text: str) -> models.Token:
    """The token of that text, be it alive or not. Raises Unauthenticated."""
    given = parse(text)
    if given is None:
        raise Unauthenticated("The token is malformed: one reads pl_<id>_<secret>.")
    row = access_db.token(session, given.ident)
    if row is None or not hmac.compare_digest(row.secret_sha256, given.secret_sha256):
        raise Unauthenticated("The token is unknown here.")
    return row


def _holder(session: Session, row: models.Token) -> Principal:
    now = database_now(session)
    if row.revoked_at is not None:
        raise Unauthenticated(f"The token {row.name!r} was revoked.")
    if row.expires_at is not None and row.expires_at <= now:
        raise Unauthenticated(
            f"The token {row.name!r} expired at {row.expires_at:%Y-%m-%d %H:%M} UTC."
        )
    access_db.note_use(session, row.id, now)
    return Principal(name=row.name, scopes=frozenset(map(Scope, row.scopes)))
