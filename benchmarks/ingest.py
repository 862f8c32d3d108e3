"""Storing samples as one compressed blob per metric, against a row per sample, in one run.

A trial has 8 ranks of 200 steps and 4 metrics. Both ways write the same samples, batched as well
as SQLAlchemy can, one transaction a trial, on PostgreSQL that syncs its writes and on SQLite.
Exits with 1 where blobs are not five times faster.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks._servers import postgresql
from service.db import migration, models
from service.db.base import Samples
from service.db.session import make_engine, make_sessions, transaction
from service.domain import Role
from service.stats.summary import summarize
from service.usecases import recording
from tests import factories

RANKS, STEPS = 8, 200
METRICS = ("step_time_s", "data_time_s", "loss", "grad_norm")
NUM_TRIALS = 30
LEAST = 5.0

ROWS = sa.Table(
    "bench_samples",
    sa.MetaData(),
    sa.Column("trial_id", sa.Uuid, primary_key=True),
    sa.Column("metric", sa.String(64), primary_key=True),
    sa.Column("rank", sa.Integer, primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
)


def main() -> int:
    """Measure and print; the exit code says whether blobs are fast enough."""
    print(f"{RANKS} ranks x {STEPS} steps x {len(METRICS)} metrics; median of {NUM_TRIALS} trials")
    print("              blobs ms    rows ms   times faster   bytes per sample")
    with postgresql() as url, tempfile.TemporaryDirectory(prefix="pl-bench-") as folder:
        ratios = [_compare("PostgreSQL", url), _compare("SQLite", _sqlite(Path(folder)))]
    return int(min(ratios) < LEAST)


def _sqlite(folder: Path) -> str:
    url = f"sqlite:///{folder / 'bench.db'}"
    engine = make_engine(url)
    migration.upgrade(engine)
    engine.dispose()
    return url


def _compare(name: str, url: str) -> float:
    """Print a line; how many times faster blobs are."""
    engine = make_engine(url)
    ROWS.create(engine)
    sessions = make_sessions(engine)
    with transaction(sessions, factories.unsent) as session:
        job = factories.job(session)
        recording.record_solo(
            session, job, job.job_cases[0].case_id, factories.trial(Role.BASELINE)
        )
        trial = session.scalars(sa.select(models.Trial)).one()
        columns = {column.name: getattr(trial, column.name) for column in trial.__table__.columns}
    rng = np.random.default_rng(1)
    seconds: dict[str, list[float]] = {"blobs": [], "rows": []}
    ways: dict[str, Callable[[Session, UUID, Mapping[str, Samples]], None]] = {
        "blobs": _store_blobs,
        "rows": _store_rows,
    }
    for _ in range(NUM_TRIALS):
        samples = {name: rng.lognormal(-3, 0.02, RANKS * STEPS) for name in METRICS}
        for way, store in ways.items():
            with transaction(sessions, factories.unsent) as session:
                copy = models.Trial(**{**columns, "id": uuid4()})
                session.add(copy)
                session.flush()
                ident = copy.id
            start = time.perf_counter()
            with transaction(sessions, factories.unsent) as session:
                store(session, ident, samples)
            seconds[way].append(time.perf_counter() - start)
    with engine.connect() as connection:
        query = sa.select(sa.func.avg(sa.func.length(models.Measurement.samples)))
        blob_bytes = float(connection.scalar(query) or 0)
    engine.dispose()
    blobs, rows = (1e3 * statistics.median(seconds[way]) for way in ("blobs", "rows"))
    size = blob_bytes / (RANKS * STEPS)
    print(f"{name:12s}{blobs:10.1f}{rows:11.1f}{rows / blobs:15.1f}{size:19.2f}")
    return rows / blobs


def _store_blobs(session: Session, trial_id: UUID, samples: Mapping[str, Samples]) -> None:
    """As the service does: summary columns and all samples."""
    for metric, values in samples.items():
        summary = summarize(values)
        session.add(
            models.Measurement(trial_id=trial_id, metric=metric, samples=values, **vars(summary))
        )


def _store_rows(session: Session, trial_id: UUID, samples: Mapping[str, Samples]) -> None:
    """A row per sample."""
    session.execute(
        sa.insert(ROWS),
        [
            {
                "trial_id": trial_id,
                "metric": metric,
                "rank": i // STEPS,
                "step": i % STEPS,
                "value": x,
            }
            for metric, values in samples.items()
            for i, x in enumerate(values.tolist())
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
