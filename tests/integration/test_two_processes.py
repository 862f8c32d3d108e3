"""Two API processes as production starts them on one PostgreSQL, with workers and without."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, func, select

from service.db import models
from service.db.session import Sessions
from service.domain import FailureReason
from service.usecases import access
from tests import factories
from tests.api import BODY
from tests.architecture.source import ROOT
from tests.fleet import Fleet, free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.parametrize("engine", ["postgresql"], indirect=True),
]

NUM_REQUESTS, NUM_KEYS, NUM_CONNECTIONS = 1000, 100, 50


@contextmanager
def api(database_url: str, broker_url: str, folder: Path) -> Iterator[str]:
    """URL of an API process."""
    port = free_port()
    program = ["-m", "uvicorn", "--factory", "service.main:create_app", "--port", str(port)]
    settings = {
        "PACELINE_DATABASE_URL": database_url,
        "PACELINE_BROKER_URL": broker_url,
        "PACELINE_DATA_DIR": str(folder),
        "PACELINE_SECRET_KEY": "k" * 32,
    }
    with (folder / f"{port}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *program, "--log-level", "warning"],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url, process)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "the API process ended"
        try:
            assert httpx.get(f"{url}/readyz", timeout=60).status_code == 200
        except httpx.ConnectError:
            time.sleep(0.2)
        else:
            return


async def ask(
    client: httpx.AsyncClient, url: str, key: int, project: str, token: str
) -> httpx.Response:
    """The answer to one request, asked again for as long as its twin is being answered."""
    headers = {"idempotency-key": f'"key {key}"', "authorization": f"Bearer {token}"}
    body = {**BODY, "project": project, "candidate": f"topic-{key}"}
    while True:
        response = await client.post(f"{url}/runs", json=body, headers=headers)
        if response.status_code != 409:
            return response
        await asyncio.sleep(int(response.headers["retry-after"]))


async def ask_all(urls: list[str], project: str, token: str) -> list[httpx.Response]:
    limits = httpx.Limits(max_connections=NUM_CONNECTIONS)
    async with httpx.AsyncClient(timeout=300, limits=limits) as client:
        requests = (
            ask(client, urls[number % len(urls)], number // 2 % NUM_KEYS, project, token)
            for number in range(NUM_REQUESTS)
        )
        return await asyncio.gather(*requests)


def assert_a_hundred_runs(
    sessions: Sessions, database_url: str, broker_url: str, project: str, folder: Path
) -> None:
    with sessions() as session, session.begin():
        token = access.bootstrap(session).text
    with ExitStack() as stack:
        urls = [stack.enter_context(api(database_url, broker_url, folder)) for _ in range(2)]
        responses = asyncio.run(ask_all(urls, project, token))
    assert {response.status_code for response in responses} == {202}
    found = {response.json()["id"] for response in responses}
    replayed = sum("idempotency-replayed" in response.headers for response in responses)
    assert len(found) == NUM_KEYS
    assert replayed == NUM_REQUESTS - NUM_KEYS
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(models.Run)) == NUM_KEYS


def test_a_thousand_requests_with_a_hundred_keys_make_a_hundred_runs(
    engine: Engine, sessions: Sessions, tmp_path: Path
):
    """Nothing listens where their broker should be."""
    with sessions() as session, session.begin():
        factories.project(session)
        factories.cluster(session)
    broker_url = f"redis://127.0.0.1:{free_port()}/0"
    database_url = engine.url.render_as_string(hide_password=False)
    assert_a_hundred_runs(sessions, database_url, broker_url, "tinylm", tmp_path)


def test_so_they_do_with_four_workers_that_plan_them(
    engine: Engine, sessions: Sessions, redis_program: Path, tmp_path: Path
):
    database_url = engine.url.render_as_string(hide_password=False)
    with Fleet(database_url, redis_program) as fleet:
        for slot in range(4):
            fleet.start("worker", slot=str(slot))
        fleet.start("beat")
        assert_a_hundred_runs(sessions, database_url, fleet.redis.url, "trainers", tmp_path)
        fleet.until(lambda: fleet.num_open() == 0, limit_s=300)
    with sessions() as session:
        reasons = set(session.scalars(select(models.Run.failure_reason)))
    assert reasons == {FailureReason.UNKNOWN_REVISION}
