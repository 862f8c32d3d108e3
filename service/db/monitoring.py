"""Queries for /metrics: the state of the service, for whoever keeps it running.

Each is asked at every scrape, so none may read a table that grows without an index: open runs and
jobs are found by their status, recent ones by the time at which the run was asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, case, exists, func, or_, select
from sqlalchemy.orm import Session

from service.db import catalog, models
from service.db.leases import database_now
from service.domain import OPEN, Status

VALID = "valid"
RECENT = timedelta(hours=1)
REACH = timedelta(days=7)  # of the runs that are looked at for what happened recently

Numbers = Mapping[tuple[str, ...], float]  # by the values of the labels
Query = Select[*tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of the service at one moment. Every cluster has a number, be it 0."""

    last_reconciliation_s: Numbers  # no label; nothing before the first
    open_runs: Numbers  # cluster, status
    open_jobs: Numbers  # cluster, status
    oldest_unplanned_run_s: Numbers  # cluster
    oldest_queued_job_s: Numbers  # cluster
    expired_leases: Numbers  # cluster
    slots: Numbers  # cluster, state
    recent_pairs: Numbers  # cluster, outcome: `valid`, or why not
    recent_failed_trials: Numbers  # cluster, reason; only what happened
    device_s: Numbers  # cluster, project; only of runs within reach


def snapshot(session: Session) -> Snapshot:
    """The state now."""
    now = database_now(session)
    clusters = [(cluster.name,) for cluster in catalog.clusters(session)]
    by_status = [(*cluster, status) for cluster in clusters for status in OPEN]
    jobs = session.execute(_open_jobs(now)).all()
    queued = {row.name: row.oldest for row in jobs if row.status is Status.QUEUED}
    unplanned = {row.name: row.oldest for row in session.execute(_unplanned())}
    looked = session.scalars(select(models.Reconciliation.at)).one_or_none()
    return Snapshot(
        last_reconciliation_s={} if looked is None else {(): _age_s(looked, now)},
        open_runs=_of_each(by_status, _numbers(session, _open_runs())),
        open_jobs=_of_each(by_status, {(row.name, row.status): row.num for row in jobs}),
        oldest_unplanned_run_s=_of_each(clusters, _ages(unplanned, now)),
        oldest_queued_job_s=_of_each(clusters, _ages(queued, now)),
        expired_leases=_of_each(
            clusters, {(row.name,): row.expired for row in jobs if row.status is Status.RUNNING}
        ),
        slots={
            (name, state): number
            for name, num_busy, num in session.execute(_slots())
            for state, number in {"busy": num_busy, "free": num - num_busy}.items()
        },
        recent_pairs=_of_each(
            [(*cluster, VALID) for cluster in clusters],
            {
                (name, reason or VALID): num
                for name, reason, num in session.execute(_recent_pairs(now))
            },
        ),
        recent_failed_trials=_numbers(session, _recent_failed_trials(now)),
        device_s=_numbers(session, _device_s(now)),
    )


def _numbers(session: Session, query: Query) -> Numbers:
    """Numbers from rows whose last column is the number and whose others are the labels."""
    return {tuple(labels): number for *labels, number in session.execute(query)}


def _of_each(keys: Sequence[tuple[str, ...]], found: Numbers) -> Numbers:
    """A number for every key: 0 where none was found."""
    return dict.fromkeys(keys, 0.0) | dict(found)


def _ages(times: Mapping[str, datetime], now: datetime) -> Numbers:
    """Seconds since the time of each cluster; not negative where a process's clock is ahead."""
    return {(name,): _age_s(time, now) for name, time in times.items()}


def _age_s(time: datetime, now: datetime) -> float:
    return max((now - time).total_seconds(), 0.0)


def _open_runs() -> Query:
    name, status = models.Cluster.name, models.Run.status
    query = select(name, status, func.count()).select_from(models.Run).join(models.Cluster)
    return query.where(status.in_(OPEN)).group_by(name, status)


def _unplanned() -> Query:
    """When the oldest run was asked for that has no job yet."""
    planned = exists().where(models.Job.run_id == models.Run.id)
    oldest = func.min(models.Run.created_at).label("oldest")
    query = select(models.Cluster.name, oldest).select_from(models.Run)
    query = query.join(models.Cluster).where(models.Run.status == Status.QUEUED, ~planned)
    return query.group_by(models.Cluster.name)


def _open_jobs(now: datetime) -> Query:
    name, status = models.Cluster.name, models.Job.status
    query = select(
        name,
        status,
        func.count().label("num"),
        func.min(models.Job.created_at).label("oldest"),
        func.count(case((models.Job.lease_until < now, 1))).label("expired"),
    )
    query = query.select_from(models.Job).join(models.Cluster)
    return query.where(status.in_(OPEN)).group_by(name, status)


def _slots() -> Query:
    query = select(models.Cluster.name, func.count(models.Slot.job_id), func.count())
    query = query.select_from(models.Slot).join(models.Cluster)
    return query.group_by(models.Cluster.name)


def _recent_pairs(now: datetime) -> Query:
    columns = (models.Cluster.name, models.Pair.invalid_reason)
    query = _recent_work(select(*columns, func.count()), now).join(
        models.Pair, models.Pair.job_id == models.Job.id
    )
    return query.where(models.Pair.finished_at >= now - RECENT).group_by(*columns)


def _recent_failed_trials(now: datetime) -> Query:
    reason = models.Trial.failure_reason
    query = _recent_work(select(models.Cluster.name, reason, func.count()), now)
    query = query.join(models.Trial, models.Trial.job_id == models.Job.id)
    query = query.where(models.Trial.finished_at >= now - RECENT, reason.is_not(None))
    return query.group_by(models.Cluster.name, reason)


def _recent_work(query: Query, now: datetime) -> Query:
    """The query, from the jobs that can have measured something recently."""
    ended = models.Job.finished_at
    query = query.select_from(models.Run).join(models.Cluster).join(models.Run.jobs)
    return query.where(
        models.Run.created_at >= now - REACH, or_(ended.is_(None), ended >= now - RECENT)
    )


def _device_s(now: datetime) -> Query:
    columns = (models.Cluster.name, models.Project.name)
    query = select(*columns, func.sum(models.Job.device_s)).select_from(models.Run)
    query = query.join(models.Cluster).join(models.Project).join(models.Run.jobs)
    return query.where(models.Run.created_at >= now - REACH).group_by(*columns)
