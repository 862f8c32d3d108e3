"""Messages leave once what they are about is committed."""

import pytest

from service.db import runs as runs_db
from service.db.session import Sessions, send_after_commit, transaction
from tests import factories
from tests.api import Outbox


def test_a_message_is_not_sent_when_the_transaction_fails(sessions: Sessions):
    outbox = Outbox(sessions)

    def fail() -> None:
        with transaction(sessions, outbox) as session:
            run = factories.run(session)
            send_after_commit(session, "paceline.plan_run", run.id)
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        fail()
    assert outbox.messages == []
    with sessions() as session:
        assert not runs_db.newest(session).items


def test_messages_leave_in_order_and_once(sessions: Sessions):
    outbox = Outbox(sessions)
    with transaction(sessions, outbox) as session:
        first, second = factories.run(session), factories.run(session)
        assert outbox.messages == []
    assert [message.ids for message in outbox.messages] == [(str(first.id),), (str(second.id),)]
