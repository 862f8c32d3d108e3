"""Alembic migrations; `paceline db upgrade` runs them."""
