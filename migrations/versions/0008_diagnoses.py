"""Why cases got slower.

Revision 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    table = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.create_table(
        "diagnoses",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("case_id", sa.Uuid(), nullable=False),
        sa.Column("baseline_trial_id", sa.Uuid(), nullable=False),
        sa.Column("candidate_trial_id", sa.Uuid(), nullable=True),
        sa.Column("cause", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("difference", table, nullable=True),
        sa.Column("library", table, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_diagnoses_job_id_jobs")),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_diagnoses_case_id_cases")),
        sa.ForeignKeyConstraint(
            ["baseline_trial_id"],
            ["trials.id"],
            name=op.f("fk_diagnoses_baseline_trial_id_trials"),
        ),
        sa.ForeignKeyConstraint(
            ["candidate_trial_id"],
            ["trials.id"],
            name=op.f("fk_diagnoses_candidate_trial_id_trials"),
        ),
        sa.PrimaryKeyConstraint("job_id", "case_id", name=op.f("pk_diagnoses")),
    )


def downgrade() -> None:
    op.drop_table("diagnoses")
