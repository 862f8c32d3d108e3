"""The artifact store: logs and records of trials, in a folder or an object store (fsspec)."""

from collections.abc import Sequence
from pathlib import Path

import fsspec

from service.usecases.recording import StoredFile


class ArtifactStore:
    """Keeps files of one run below `url`."""

    def __init__(self, url: str, prefix: str) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self._prefix = prefix

    def keep(self, folder: str, log: Path, records: Path) -> Sequence[StoredFile]:
        """Store a trial's log and its ranks' records; what does not exist is left out."""
        files = [
            ("log", log),
            *(("records", path) for path in sorted(records.glob("rank-*.jsonl"))),
        ]
        return [
            self._put(kind, f"{self._prefix}/{folder}/{path.name}", path.read_bytes())
            for kind, path in files
            if path.is_file()  # no pipe, which would never end
        ]

    def keep_text(self, name: str, text: str) -> StoredFile:
        """Store a log that belongs to the run as a whole."""
        return self._put("log", f"{self._prefix}/{name}", text.encode())

    def _put(self, kind: str, path: str, content: bytes) -> StoredFile:
        target = f"{self._root}/{path}"
        self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(target, content)
        return StoredFile(
            kind=kind, name=path.rpartition("/")[2], path=path, num_bytes=len(content)
        )
