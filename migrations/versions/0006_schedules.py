"""Schedules, and when the reconciler, which starts them, last looked.

Revision 0006, after 0005.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("cron", sa.String(length=100), nullable=False),
        sa.Column(
            "request", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False
        ),
        sa.Column("created_by", sa.String(length=100), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("left_out_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_schedules_project_id_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_schedules_project_id_name")),
    )
    op.create_index(op.f("ix_schedules_created_at_id"), "schedules", ["created_at", "id"])
    op.create_index(op.f("ix_schedules_next_at"), "schedules", ["next_at"])
    op.create_table(
        "reconciliations",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reconciliations")),
    )
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("schedule_id", sa.Uuid(), nullable=True))
        runs.create_foreign_key(
            op.f("fk_runs_schedule_id_schedules"),
            "schedules",
            ["schedule_id"],
            ["id"],
            ondelete="SET NULL",
        )
        runs.create_index(
            op.f("ix_runs_schedule_id_created_at_id"), ["schedule_id", "created_at", "id"]
        )


def downgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.drop_index(op.f("ix_runs_schedule_id_created_at_id"))
        runs.drop_constraint(op.f("fk_runs_schedule_id_schedules"), type_="foreignkey")
        runs.drop_column("schedule_id")
    op.drop_table("reconciliations")
    op.drop_table("schedules")
