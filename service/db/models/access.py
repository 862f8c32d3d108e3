"""Who may ask: tokens. Of a token's secret only the digest is kept."""

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from service.db.base import Base
from service.db.models.catalog import now


class Token(Base):
    """The right to ask. A name is given once, for good, since runs name who requested them."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(String(12), primary_key=True)  # public: the token begins by it
    name: Mapped[str] = mapped_column(String(100), unique=True)
    secret_sha256: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[Any]]  # domain.Scope
    created_by: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]  # to the minute
