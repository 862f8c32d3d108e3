"""One answer per idempotency key: what the first request was told, those that repeat it are too."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from service.db import idempotency, models
from service.errors import Refused

HEADER = "Idempotency-Key"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a request that was done is told, `is_replayed` where it was told so before."""

    status: int
    location: str
    body: str
    is_replayed: bool = False


def answer_once(
    session: Session, *, principal: str, key: str, fingerprint: str, make: Callable[[], Answer]
) -> Answer:
    """The answer that is stored for a principal's key, or the one `make` gives, now stored.

    It is stored in the transaction of what `make` does, so there is never one without the other,
    and an error, which undoes both, may be tried again. Raises Busy, Refused, and what `make` does.
    """
    idempotency.hold(session, principal, key)
    stored = idempotency.find(session, principal, key)
    if stored is not None:
        if stored.fingerprint != fingerprint:
            detail = "This key was used for another request; choose a new one for every request."
            raise Refused(HEADER, detail)
        return Answer(
            status=stored.status, location=stored.location, body=stored.body, is_replayed=True
        )
    answer = make()
    row = models.IdempotencyKey(principal=principal, key=key, fingerprint=fingerprint)
    row.status, row.location, row.body = answer.status, answer.location, answer.body
    session.add(row)
    session.flush()
    return answer
