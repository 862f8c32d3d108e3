"""What the database knows, as Prometheus reads it: asked at every scrape, kept nowhere."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from service.db import monitoring
from service.db.monitoring import Numbers, Snapshot
from service.db.session import Sessions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Gauge:
    """A part of the snapshot under its name for Prometheus."""

    name: str
    help: str
    labels: tuple[str, ...] = ("cluster",)
    read: Callable[[Snapshot], Numbers]


# Gauges all: rows are deleted, and a counter must not fall.
_GAUGES = (
    _Gauge(
        name="paceline_last_reconciliation_age_seconds",
        help="Since lost work, and what schedules want, was last looked for.",
        labels=(),
        read=attrgetter("last_reconciliation_s"),
    ),
    _Gauge(
        name="paceline_open_runs",
        help="Runs that have not ended.",
        labels=("cluster", "status"),
        read=attrgetter("open_runs"),
    ),
    _Gauge(
        name="paceline_open_jobs",
        help="Jobs that have not ended.",
        labels=("cluster", "status"),
        read=attrgetter("open_jobs"),
    ),
    _Gauge(
        name="paceline_oldest_unplanned_run_age_seconds",
        help="Since the oldest run was asked for that is not planned yet; 0 without one.",
        read=attrgetter("oldest_unplanned_run_s"),
    ),
    _Gauge(
        name="paceline_oldest_queued_job_age_seconds",
        help="Since the oldest queued job was made; 0 without one.",
        read=attrgetter("oldest_queued_job_s"),
    ),
    _Gauge(
        name="paceline_expired_leases",
        help="Running jobs whose worker has not renewed its lease in time.",
        read=attrgetter("expired_leases"),
    ),
    _Gauge(
        name="paceline_slots",
        help="Slots, busy and free.",
        labels=("cluster", "state"),
        read=attrgetter("slots"),
    ),
    _Gauge(
        name="paceline_recent_pairs",
        help="Pairs measured in the last hour, of runs of the last seven days.",
        labels=("cluster", "outcome"),
        read=attrgetter("recent_pairs"),
    ),
    _Gauge(
        name="paceline_recent_failed_trials",
        help="Trials that failed in the last hour, of runs of the last seven days.",
        labels=("cluster", "reason"),
        read=attrgetter("recent_failed_trials"),
    ),
    _Gauge(
        name="paceline_recent_device_seconds",
        help="Device time (node time on a CPU cluster) spent by the runs of the last seven days.",
        labels=("cluster", "project"),
        read=attrgetter("device_s"),
    ),
)


class DatabaseCollector(Collector):
    """The gauges above, and whether there is a database to ask."""

    def __init__(self, engine: Engine, sessions: Sessions) -> None:
        assert isinstance(engine.pool, QueuePool)
        self._pool, self._sessions = engine.pool, sessions

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All families; without a database only those that say so."""
        yield GaugeMetricFamily(
            "paceline_database_connections_in_use",
            "Connections of this process's pool that are in use.",
            self._pool.checkedout(),
        )
        found = self._snapshot()
        is_up = found is not None
        yield GaugeMetricFamily(
            "paceline_database_up", "Whether the database answers: 1 or 0.", float(is_up)
        )
        if found is not None:
            yield from (_family(gauge, found) for gauge in _GAUGES)

    def _snapshot(self) -> Snapshot | None:
        try:
            with self._sessions.begin() as session:
                return monitoring.snapshot(session)
        except SQLAlchemyError as error:
            logger.warning("the database does not answer the scrape: %s", type(error).__name__)
            return None


def _family(gauge: _Gauge, found: Snapshot) -> GaugeMetricFamily:
    family = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
    for values, number in gauge.read(found).items():
        family.add_metric(values, number)
    return family
