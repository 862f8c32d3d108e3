"""One archive with a consistent copy of the database and, if asked, the artifacts.

FILE (tar)
├── database         SQLite file, or pg_dump's custom format
├── artifacts/...    as they lie in the store
└── manifest.json    what the archive is, and the SHA-256 of every other part
"""

import hashlib
import io
import shutil
import tarfile
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from sqlalchemy import Engine

from service.artifacts import ArtifactStore
from service.db import copying, migration
from service.errors import PacelineError, Refused

_MANIFEST = "manifest.json"
_DATABASE = "database"
_ARTIFACTS = "artifacts/"


class Manifest(BaseModel):
    """What an archive is. `parts` are the other files in it, by name, with their SHA-256."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    version: str
    made_at: datetime
    database: str
    schema_revision: str
    num_rows: dict[str, int]
    has_artifacts: bool
    parts: dict[str, str]

    @field_validator("parts")
    @classmethod
    def _are_ours(cls, parts: dict[str, str]) -> dict[str, str]:
        """The database is one of them, and no name leads out of the artifact store."""
        for name in parts.keys() - {_DATABASE}:
            if not name.startswith(_ARTIFACTS) or ".." in PurePosixPath(name).parts:
                raise ValueError(f"{name!r} is no part of a backup")
        if _DATABASE not in parts:
            raise ValueError("the database is missing")
        return parts


def back_up(engine: Engine, artifact_url: str, file: Path, *, with_artifacts: bool) -> Manifest:
    """Write an archive; it appears under its name once it is complete. Raises Refused.

    The artifacts come after the database: an artifact lies in the store before its row is written.
    """
    if file.exists():
        raise Refused("FILE", f"{file} exists; name a new file.")
    if not file.parent.is_dir():
        raise Refused("FILE", f"There is no folder {file.parent}; make it, or name another file.")
    with tempfile.TemporaryDirectory(prefix=".paceline-backup-", dir=file.parent) as folder:
        copy, archive_file = Path(folder, "database"), Path(folder, "archive")
        found = copying.copy_out(engine, copy)
        if found.schema_revision is None:
            raise Refused("database_url", "The database has no schema: there is nothing to keep.")
        with tarfile.open(archive_file, "x") as archive:
            with copy.open("rb") as content:
                parts = {_DATABASE: _add(archive, _DATABASE, content)}
            if with_artifacts:
                parts |= _add_artifacts(archive, artifact_url)
            manifest = Manifest(
                version=version("paceline"),
                made_at=datetime.now(UTC),
                database=engine.dialect.name,
                schema_revision=found.schema_revision,
                num_rows=dict(found.num_rows),
                has_artifacts=with_artifacts,
                parts=parts,
            )
            _add(archive, _MANIFEST, io.BytesIO(manifest.model_dump_json(indent=2).encode()))
        archive_file.chmod(0o600)  # it holds what the database holds
        archive_file.rename(file)
    return manifest


def restore(engine: Engine, artifact_url: str, file: Path, *, force: bool) -> Manifest:
    """Put an archive's content in the place of what is there.

    Raises Refused before anything is changed, and Conflict where the database is in use.
    """
    try:
        archive = tarfile.open(file, "r:")  # noqa: SIM115 (closed by the next `with`)
    except (OSError, tarfile.TarError) as error:
        detail = f"{file} is no backup ({error}); name a file that `paceline backup` wrote."
        raise Refused("FILE", detail) from error
    with archive, tempfile.TemporaryDirectory(prefix="paceline-restore-") as folder:
        manifest = _verified(archive, file)
        _check_target(engine, manifest, force=force)
        copy = Path(folder, "database")
        with copy.open("wb") as target:
            shutil.copyfileobj(_part(archive, _DATABASE), target)
        copying.copy_in(engine, copy)
        _restore_artifacts(archive, manifest, artifact_url)
    if copying.contents(engine).num_rows != manifest.num_rows:
        raise PacelineError("The restored tables have other numbers of rows than the archive says.")
    return manifest


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes]) -> str:
    """Add a file to the archive; its SHA-256."""
    digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    archive.addfile(member, content)
    return digest


def _add_artifacts(archive: tarfile.TarFile, url: str) -> dict[str, str]:
    store = ArtifactStore(url)
    return {
        _ARTIFACTS + path: _add(archive, _ARTIFACTS + path, io.BytesIO(store.read(path)))
        for path in store.paths()
    }


def _restore_artifacts(archive: tarfile.TarFile, manifest: Manifest, url: str) -> None:
    store = ArtifactStore(url)
    for name in sorted(manifest.parts.keys() - {_DATABASE}):
        store.put(name.removeprefix(_ARTIFACTS), _part(archive, name).read())


def _verified(archive: tarfile.TarFile, file: Path) -> Manifest:
    """The manifest, once every part is there and is what it says. Raises Refused."""
    try:
        manifest = Manifest.model_validate_json(_part(archive, _MANIFEST).read())
        for name, expected in manifest.parts.items():
            content = _part(archive, name)
            if hashlib.file_digest(content, "sha256").hexdigest() != expected:  # type: ignore[arg-type]
                raise Refused("FILE", f"{name} in {file} is damaged; restore another backup.")
    except (KeyError, ValidationError, tarfile.TarError) as error:
        detail = f"{file} is no whole backup of a format we know ({error}); restore another one."
        raise Refused("FILE", detail) from error
    return manifest


def _part(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """Content of a part. Raises KeyError where the archive has none of that name."""
    content = archive.extractfile(name)
    if content is None:
        raise KeyError(f"{name} is no file")
    return content


def _check_target(engine: Engine, manifest: Manifest, *, force: bool) -> None:
    """Raise Refused where the archive does not fit, or would replace something unasked."""
    if manifest.database != engine.dialect.name:
        detail = (
            f"The archive holds a {manifest.database} database, PACELINE_DATABASE_URL names a "
            f"{engine.dialect.name} one. Restore into the kind it was made from."
        )
        raise Refused("database_url", detail)
    if not migration.is_known(manifest.schema_revision):
        detail = (
            f"The archive's schema {manifest.schema_revision} is newer than this version knows. "
            f"Restore it with Paceline {manifest.version} or newer."
        )
        raise Refused("FILE", detail)
    if not force and not copying.contents(engine).is_empty:
        detail = "The database is not empty. Back it up, then replace its content with --force."
        raise Refused("--force", detail)
