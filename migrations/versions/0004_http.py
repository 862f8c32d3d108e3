"""Idempotency keys, the verdict on the run, and an index for every list and filter.

Revision 0004, after 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_LISTED = ("projects", "clusters")
_FILTERS = ("project_id", "cluster_id", "intent", "status", "verdict")
_REPLACED = ("project_id", "cluster_id", "status")  # by an index that goes on with the order
_SIDES = ("baseline_side_id", "candidate_side_id")

# What the service computed until now whenever a run was read: its worst gating verdict in force.
_VERDICTS = """
update runs set verdict = coalesce(
  (select verdict from comparisons join jobs on jobs.id = comparisons.job_id
   where jobs.run_id = runs.id and superseded_at is null and is_gating
   order by case comparisons.verdict
     when 'broken' then 0 when 'regression' then 1 when 'incomparable' then 2 when 'missing' then 3
     when 'invalid' then 4 when 'inconclusive' then 5 when 'improvement' then 6 else 7 end
   limit 1),
  'missing')
where status = 'finished'
"""


def upgrade() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("principal", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("location", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_keys")),
        sa.UniqueConstraint("principal", "key", name=op.f("uq_idempotency_keys_principal_key")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"])
    op.add_column("runs", sa.Column("verdict", sa.String(length=32), nullable=True))
    op.execute(_VERDICTS)
    for column in _REPLACED:
        op.drop_index(op.f(f"ix_runs_{column}"), "runs")
    for column in _FILTERS:
        op.create_index(
            op.f(f"ix_runs_{column}_created_at_id"), "runs", [column, "created_at", "id"]
        )
    for column in _SIDES:
        op.create_index(op.f(f"ix_runs_{column}"), "runs", [column])
    for table in _LISTED:
        op.create_index(op.f(f"ix_{table}_created_at_id"), table, ["created_at", "id"])
    op.create_index(op.f("ix_revisions_sha"), "revisions", ["sha"])


def downgrade() -> None:
    op.drop_index(op.f("ix_revisions_sha"), "revisions")
    for table in _LISTED:
        op.drop_index(op.f(f"ix_{table}_created_at_id"), table)
    for column in _SIDES:
        op.drop_index(op.f(f"ix_runs_{column}"), "runs")
    for column in _FILTERS:
        op.drop_index(op.f(f"ix_runs_{column}_created_at_id"), "runs")
    for column in _REPLACED:
        op.create_index(op.f(f"ix_runs_{column}"), "runs", [column])
    op.drop_column("runs", "verdict")
    op.drop_table("idempotency_keys")
