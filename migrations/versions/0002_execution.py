"""Execution by several workers: a queue per cluster, lost workers counted, d stored per pair.

Revision 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from service.db.base import unpack
from service.domain import Arrangement
from service.stats.pairs import effects

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("planning_until", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("cluster_id", sa.Uuid(), nullable=True))
        jobs.add_column(sa.Column("num_losses", sa.Integer(), nullable=False, server_default="0"))
        jobs.drop_index("ix_jobs_status_priority_created_at")
    op.execute(
        "update jobs set cluster_id = (select cluster_id from runs where runs.id = jobs.run_id)"
    )
    with op.batch_alter_table("jobs") as jobs:
        jobs.alter_column("cluster_id", nullable=False)
        jobs.alter_column("num_losses", server_default=None)
        jobs.create_foreign_key(
            op.f("fk_jobs_cluster_id_clusters"), "clusters", ["cluster_id"], ["id"]
        )
        jobs.create_index(
            op.f("ix_jobs_cluster_id_status_priority_created_at_id"),
            ["cluster_id", "status", "priority", "created_at", "id"],
        )
        jobs.create_index(op.f("ix_jobs_status_lease_until"), ["status", "lease_until"])
    with op.batch_alter_table("job_cases") as job_cases:
        job_cases.add_column(sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("slots") as slots:
        slots.drop_column("lease_until")
    with op.batch_alter_table("pairs") as pairs:
        pairs.add_column(sa.Column("effects", _JSON, nullable=False, server_default="{}"))
    _store_effects()
    with op.batch_alter_table("pairs") as pairs:
        pairs.alter_column("effects", server_default=None)


def downgrade() -> None:
    with op.batch_alter_table("pairs") as pairs:
        pairs.drop_column("effects")
    with op.batch_alter_table("slots") as slots:
        slots.add_column(sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True))
    op.execute(
        "update slots set lease_until = (select lease_until from jobs where jobs.id = slots.job_id)"
    )
    with op.batch_alter_table("job_cases") as job_cases:
        job_cases.drop_column("finished_at")
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_index(op.f("ix_jobs_status_lease_until"))
        jobs.drop_index(op.f("ix_jobs_cluster_id_status_priority_created_at_id"))
        jobs.drop_constraint(op.f("fk_jobs_cluster_id_clusters"), type_="foreignkey")
        jobs.create_index(
            "ix_jobs_status_priority_created_at", ["status", "priority", "created_at"]
        )
        jobs.drop_column("num_losses")
        jobs.drop_column("cluster_id")
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("planning_until")


def _store_effects() -> None:
    """Compute d of the valid pairs that are there, from their samples."""
    connection = op.get_bind()
    pairs = sa.table(
        "pairs",
        sa.column("id", sa.Uuid()),
        sa.column("arrangement", sa.String()),
        sa.column("steps_per_turn", sa.Integer()),
        sa.column("invalid_reason", sa.String()),
        sa.column("effects", _JSON),
    )
    trials = sa.table(
        "trials",
        sa.column("id", sa.Uuid()),
        sa.column("pair_id", sa.Uuid()),
        sa.column("role", sa.String()),
        sa.column("num_warmup_steps", sa.Integer()),
    )
    measurements = sa.table(
        "measurements",
        sa.column("trial_id", sa.Uuid()),
        sa.column("metric", sa.String()),
        sa.column("samples", sa.LargeBinary()),
    )
    samples = (
        sa.select(trials.c.role, trials.c.num_warmup_steps, measurements)
        .join(measurements, measurements.c.trial_id == trials.c.id)
        .where(trials.c.pair_id == sa.bindparam("pair"))
    )
    for pair in connection.execute(sa.select(pairs).where(pairs.c.invalid_reason.is_(None))).all():
        sides: dict[str, dict[str, object]] = {"baseline": {}, "candidate": {}}
        for row in connection.execute(samples, {"pair": pair.id}):
            warmup = row.num_warmup_steps if row.metric == "step_time_s" else 0
            sides[row.role][row.metric] = unpack(row.samples)[warmup:]
        found = effects(
            Arrangement(pair.arrangement),
            pair.steps_per_turn,
            sides["baseline"],
            sides["candidate"],
        )
        connection.execute(sa.update(pairs).where(pairs.c.id == pair.id).values(effects=found))
