"""Operators that a static trial counted.

Revision 0007, after 0006.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    operators = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    with op.batch_alter_table("trials") as trials:
        trials.add_column(sa.Column("operators", operators, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("trials") as trials:
        trials.drop_column("operators")
