"""`paceline up` as a process: how it ends."""

import signal
import threading
from collections.abc import Iterator

import httpx
import pytest

from tests.standalone import Standalone


@pytest.fixture
def service() -> Iterator[Standalone]:
    with Standalone() as made:
        yield made


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_while_a_run_is_measured_and_followed(service: Standalone, how: signal.Signals):
    run_id = service.request()
    service.await_trial()
    heard = threading.Event()

    def follow() -> None:
        with httpx.stream("GET", f"{service.url}/runs/{run_id}/events", timeout=60) as stream:
            for _ in stream.iter_lines():
                heard.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert heard.wait(60)
    service.end(how)
    follower.join(60)
    assert not follower.is_alive()
    assert "graceful shutdown exceeded" not in service.log(), "the stream was told to end"
    assert service.gone_within(10) == []
