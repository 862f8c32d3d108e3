"""The artifact store: logs and records of trials, in a folder or an object store (fsspec)."""

from collections.abc import Sequence
from pathlib import Path

import fsspec

from runners.plainfile import read_plain
from service.usecases.recording import StoredFile
from workloads.records import rank_file


class ArtifactStore:
    """Keeps files of one run below `url`."""

    def __init__(self, url: str, prefix: str) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self._prefix = prefix

    def keep(self, folder: str, log: Path, records: Path, world_size: int) -> Sequence[StoredFile]:
        """Store a trial's log and its ranks' records; what is no plain file is left out."""
        ranks = [rank_file(records, rank) for rank in range(world_size)]
        stored = []
        for kind, path in [("log", log), *(("records", path) for path in ranks)]:
            try:
                content = read_plain(path)
            except OSError:
                continue
            stored.append(self._put(kind, f"{self._prefix}/{folder}/{path.name}", content))
        return stored

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
