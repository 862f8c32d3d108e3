"""A request names its baseline: where it did not, the candidate's first parent was meant.

Revision 0005, after 0004. Downgrading leaves it named, which the older version reads as well.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_RUNS = sa.table("runs", sa.column("id", sa.Uuid()), sa.column("request", sa.JSON()))


def upgrade() -> None:
    connection = op.get_bind()
    for run_id, request in connection.execute(sa.select(_RUNS.c.id, _RUNS.c.request)).all():
        candidate = request.get("candidate")
        if candidate is not None and request.get("baseline") is None:
            baseline = {**candidate, "revision": f"{candidate['revision']}^1"}
            connection.execute(
                sa.update(_RUNS)
                .where(_RUNS.c.id == run_id)
                .values(request={**request, "baseline": baseline})
            )


def downgrade() -> None:
    pass
