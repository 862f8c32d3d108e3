"""How many jobs do eight workers claim a second? Only the database work: claim, then release.

Each worker is a process with a slot of its own, on one PostgreSQL that syncs its writes. The peer
in the same run is one worker alone: eight must not be slower than it, or they stand in each
other's way.
"""

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from uuid import UUID

import sqlalchemy as sa

from benchmarks._servers import postgresql
from service.db import leases, models
from service.db.session import make_engine, make_sessions, transaction
from service.domain import Status
from tests import factories

NUM_JOBS = 1600
CROWD = 8


def main() -> None:
    """Measure and print."""
    with postgresql() as url:
        _make_jobs(url, 2 * NUM_JOBS)
        rates = {count: _rate(url, count) for count in (1, CROWD)}
    print("workers   claims per second   of one worker's")
    for count, found in rates.items():
        print(f"{count:7d}{found:20.0f}{found / rates[1]:18.2f}")


def _make_jobs(url: str, count: int) -> None:
    """Queued jobs: copies of one that was planned."""
    engine = make_engine(url)
    with transaction(make_sessions(engine), factories.unsent) as session:
        first = factories.job(session)
        for number in range(1, CROWD):
            factories.slot_id(session, number)
        row = sa.inspect(models.Job).local_table
        names = [column.name for column in row.columns if column.name != "id"]
        copies = sa.select(
            sa.func.gen_random_uuid(), *(row.c[name] for name in names if name != "position")
        ).add_columns(sa.func.generate_series(1, count - 1))
        ordered = ["id", *(name for name in names if name != "position"), "position"]
        session.execute(sa.insert(row).from_select(ordered, copies.where(row.c.id == first.id)))
    engine.dispose()


def _rate(url: str, num_workers: int) -> float:
    """Claims per second of so many workers together."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(num_workers + 1)
    share = NUM_JOBS // num_workers
    workers = [
        context.Process(target=_work, args=(url, number, share, barrier))
        for number in range(num_workers)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise SystemExit(f"a worker ended with {worker.exitcode}")
    return share * num_workers / (time.perf_counter() - start)


def _work(url: str, number: int, share: int, barrier: Barrier) -> None:
    """One worker: claims and releases its share."""
    engine = make_engine(url)
    sessions = make_sessions(engine)
    with transaction(sessions, factories.unsent) as session:
        slot_id: UUID = factories.slot_id(session, number)
    barrier.wait()
    done = 0
    while done < share:
        with transaction(sessions, factories.unsent) as session:
            claim = leases.claim(session, slot_id, owner=str(number), lease_s=30)
        if claim is None:  # others hold what it saw first
            continue
        with transaction(sessions, factories.unsent) as session:
            leases.release(session, claim, Status.FINISHED)
        done += 1
    engine.dispose()


if __name__ == "__main__":
    main()
