"""What a worker needs to do anything: database, messages, settings."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from runners.artifacts import ArtifactStore
from service.config import Settings
from service.db.session import Send, Sessions


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One worker process (or thread, in standalone mode)."""

    name: str
    settings: Settings
    sessions: Sessions
    send: Send
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def data_dir(self) -> Path:
        """Where mirrors, worktrees and environments lie."""
        return self.settings.data_dir.absolute()

    def store(self, run_id: object) -> ArtifactStore:
        """Artifacts of one run."""
        return ArtifactStore(self.settings.resolved_artifact_url, f"runs/{run_id}")
