"""How many runs does one API process accept a second, and how long does the slowest 1 % wait?

Twenty clients ask one process of `paceline api`, on PostgreSQL that syncs its writes and on Redis.
The peer in the same run is GET /healthz: what HTTP alone costs on this machine.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import numpy as np

from benchmarks._servers import api, postgresql
from service.db.session import make_engine, make_sessions, transaction
from service.domain import Scope
from service.usecases import registry
from tests import factories

NUM_CLIENTS = 20
NUM_WARMUP, NUM_REQUESTS = 100, 2000

Ask = Callable[[httpx.AsyncClient], Coroutine[Any, Any, httpx.Response]]


def main() -> None:
    """Measure and print."""
    with postgresql() as database_url, api(database_url) as url:
        engine = make_engine(database_url)
        with transaction(make_sessions(engine), factories.unsent) as session:
            registry.add_project(session, name="tinylm", source="https://git.example/tinylm.git")
            factories.cluster(session)
            token = factories.token(session, "bench", Scope.RUNS_WRITE, Scope.READ).text
        engine.dispose()
        body = {"project": "tinylm", "baseline": "main", "candidate": "faster"}
        asked = {
            "GET /healthz": lambda client: client.get("/healthz"),
            "POST /runs": lambda client: client.post("/runs", json=body),
        }
        times = {name: asyncio.run(measure(url, token, ask)) for name, ask in asked.items()}
    print(f"{NUM_REQUESTS} requests by {NUM_CLIENTS} clients, one process")
    print("                 per second   median ms     p99 ms   of GET /healthz")
    base = rate(*times["GET /healthz"])
    for name, (total_s, seconds) in times.items():
        median, p99 = 1e3 * np.quantile(seconds, [0.5, 0.99])
        found = rate(total_s, seconds)
        print(f"{name:16s}{found:11.0f}{median:12.1f}{p99:11.1f}{found / base:18.1%}")


def rate(total_s: float, seconds: list[float]) -> float:
    """Requests per second."""
    return len(seconds) / total_s


async def measure(url: str, token: str, ask: Ask) -> tuple[float, list[float]]:
    """Seconds in all, and of each request."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        await _work(client, ask, NUM_WARMUP)
        start = time.perf_counter()
        seconds = await _work(client, ask, NUM_REQUESTS)
        return time.perf_counter() - start, seconds


async def _work(client: httpx.AsyncClient, ask: Ask, count: int) -> list[float]:
    seconds = []
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            start = time.perf_counter()
            response = await ask(client)
            response.raise_for_status()
            seconds.append(time.perf_counter() - start)

    await asyncio.gather(*(work() for _ in range(NUM_CLIENTS)))
    return seconds


if __name__ == "__main__":
    main()
