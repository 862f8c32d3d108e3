"""What all tables share: naming of constraints, time-zone aware times, sample blobs."""

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import JSON, DateTime, Dialect, Enum, LargeBinary, MetaData, TypeDecorator, Uuid
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase

Samples = NDArray[np.float64] | NDArray[np.int64]


class AwareDateTime(TypeDecorator[datetime]):
    """A time with its zone on every database; SQLite forgets zones, so UTC is put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a naive time: it would be read in another zone than it was written in."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Times leave the database in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class SampleBlob(TypeDecorator[Samples]):
    """One-dimensional samples as a byte-shuffled, zlib-compressed blob.

    float64 for times, int64 for bytes and counts. Shuffling puts the n-th bytes of all samples
    side by side, where zlib finds them alike (HDF5's shuffle filter).
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """Array or sequence to blob; the first byte tells the type."""
        return None if value is None else pack(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> Samples | None:
        """Blob to array."""
        return None if value is None else unpack(value)


def pack(values: Sequence[float] | Samples) -> bytes:
    """Blob of one-dimensional samples."""
    array = np.asarray(values)
    is_integer = np.issubdtype(array.dtype, np.integer)
    array = array.astype("<i8" if is_integer else "<f8")
    shuffled = array.view(np.uint8).reshape(-1, 8).T.tobytes()
    return (b"i" if is_integer else b"f") + zlib.compress(shuffled, 6)


def unpack(blob: bytes) -> Samples:
    """Samples of a blob made by `pack`."""
    raw = np.frombuffer(zlib.decompress(blob[1:]), dtype=np.uint8)
    flat = np.ascontiguousarray(raw.reshape(8, -1).T).reshape(-1)
    return flat.view(np.int64) if blob[:1] == b"i" else flat.view(np.float64)


class Base(DeclarativeBase):
    """Common base of the tables."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy's declarative API)
        datetime: AwareDateTime(),
        UUID: Uuid(),
        # Words, not database enums: a new word needs no migration.
        StrEnum: Enum(
            StrEnum,
            native_enum=False,
            create_constraint=False,
            length=32,
            values_callable=lambda words: [word.value for word in words],
        ),
        dict[str, Any]: JSON().with_variant(JSONB(), "postgresql"),
        list[Any]: JSON().with_variant(JSONB(), "postgresql"),
        Samples: SampleBlob(),
    }
