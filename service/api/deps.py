"""What routes are given."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from service.db.session import transaction


def get_session(request: Request) -> Iterator[Session]:
    """A session, committed before the response is sent; its messages leave after that."""
    with transaction(request.app.state.sessions, request.app.state.send) as session:
        yield session


# scope="function": otherwise the commit would follow the response, and could fail unseen.
SessionDep = Annotated[Session, Depends(get_session, scope="function")]
