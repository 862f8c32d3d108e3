"""What is kept of a run in the artifact store: its logs, and what its trials left."""

from collections.abc import Sequence
from pathlib import Path

from runners.plainfile import MAX_BYTES, read_plain
from service.artifacts import ArtifactStore
from service.usecases.recording import StoredFile
from workloads.records import rank_file, trace_file


class RunArtifacts:
    """Keeps files of one run, whose paths begin by `prefix`."""

    def __init__(self, store: ArtifactStore, prefix: str) -> None:
        self._store, self._prefix = store, prefix

    def keep(
        self, folder: str, log: Path, telemetry: Path, records: Path, world_size: int
    ) -> Sequence[StoredFile]:
        """Store a trial's log, telemetry, and ranks' records and traces; what is no plain file is
        left out, and a trace that is too long: its two ends are of no use.
        """
        ranks = [("records", rank_file(records, rank)) for rank in range(world_size)]
        ranks += [("trace", trace_file(records, rank)) for rank in range(world_size)]
        stored = []
        for kind, path in [("log", log), ("telemetry", telemetry), *ranks]:
            try:
                if kind == "trace" and path.lstat().st_size > MAX_BYTES:
                    continue
                content = read_plain(path)
            except OSError:
                continue
            stored.append(self._put(kind, f"{self._prefix}/{folder}/{path.name}", content))
        return stored

    def keep_text(self, name: str, text: str) -> StoredFile:
        """Store a log that belongs to the run as a whole."""
        return self._put("log", f"{self._prefix}/{name}", text.encode())

    def _put(self, kind: str, path: str, content: bytes) -> StoredFile:
        self._store.put(path, content)
        return StoredFile(
            kind=kind, name=path.rpartition("/")[2], path=path, num_bytes=len(content)
        )
