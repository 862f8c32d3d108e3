"""What a worker needs to do anything: database, messages, settings, the slot it measures on."""

import os
import socket
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from sqlalchemy.orm import Session

from runners import environment
from runners.account import OWN, Account
from runners.artifacts import RunArtifacts
from runners.isolation import open_data_dir
from service.artifacts import ArtifactStore
from service.config import Settings
from service.db.session import Send, Sessions, transaction
from service.usecases import registry


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One worker process (or thread, in standalone mode)."""

    name: str
    settings: Settings
    sessions: Sessions
    send: Send
    slot_id: UUID
    account: Account = OWN  # whose set-up and trials are
    stopping: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def serving(
        cls, settings: Settings, sessions: Sessions, send: Send, *, cluster: str, slot: str
    ) -> "Worker":
        """This process as the worker of a slot, which is made where it is missing.

        Raises Refused where this machine or the cluster does not allow that.
        """
        account = open_data_dir(settings)
        with transaction(sessions, send) as session:
            row = registry.serve_cluster(
                session,
                cluster,
                slot,
                num_cpus=len(os.sched_getaffinity(0)),
                num_devices=environment.num_devices(),
            )
        return cls(
            name=f"{cluster}.{slot}@{socket.gethostname()}-{os.getpid()}",
            settings=settings,
            sessions=sessions,
            send=send,
            slot_id=row.id,
            account=account,
        )

    @property
    def data_dir(self) -> Path:
        """Where mirrors, worktrees and environments lie."""
        return self.settings.data_dir.absolute()

    def transaction(self) -> AbstractContextManager[Session]:
        """A session that is committed at the end; then its messages are sent."""
        return transaction(self.sessions, self.send)

    def artifacts(self, run_id: object) -> RunArtifacts:
        """What is kept of one run."""
        store = ArtifactStore(self.settings.resolved_artifact_url)
        return RunArtifacts(store, f"runs/{run_id}")
