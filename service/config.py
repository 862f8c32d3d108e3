"""Settings: the only reader of the environment on the service side (`PACELINE_*`)."""

from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


class Settings(BaseSettings):
    """Where Paceline keeps things and how it listens. Every field is `PACELINE_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="PACELINE_", extra="forbid")

    data_dir: Path = Field(
        default=Path(".paceline"), description="All state of a standalone service."
    )
    database_url: str = Field(default="", description="SQLAlchemy URL; empty: SQLite in data_dir.")
    broker_url: str = Field(default="memory://", description="Celery broker.")
    artifact_url: str = Field(default="", description="fsspec URL for logs; empty: data_dir.")
    git_credentials: Path | None = Field(
        default=None, description="Passwords of git sources, as git's credential-store keeps them."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8321, description="Port to listen on.")
    proxy_addresses: str = Field(
        default="", description="Proxies whose X-Forwarded-* headers are believed."
    )
    url: str = Field(default="", description="Service the CLI talks to; empty: host and port.")
    token: SecretStr = Field(default=SecretStr(""), description="Token the CLI sends; empty: none.")
    secret_key: SecretStr = Field(
        default=SecretStr(""), description="Signs logins and forms; standalone makes its own."
    )
    lease_s: float = Field(
        default=30.0, gt=0, description="How long a worker owns a job unrenewed."
    )
    max_losses: int = Field(
        default=3, ge=1, description="A job that loses so many workers without a pair has failed."
    )
    kill_grace_s: float = Field(default=10.0, ge=0, description="From SIGTERM to SIGKILL.")
    reconcile_s: float = Field(default=10.0, gt=0, description="How often lost work is looked for.")
    stall_s: float = Field(default=60.0, gt=0, description="A trial silent for so long has hung.")
    start_s: float = Field(
        default=180.0, gt=0, description="A trial may take so long to its first step."
    )
    log_format: LogFormat = Field(
        default=LogFormat.TEXT, description="Lines for people, or JSON for machines."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severity of the lines Paceline itself logs."
    )

    @property
    def is_standalone(self) -> bool:
        """Whether one process is the whole service; else messages go to workers elsewhere."""
        return self.broker_url.startswith("memory://")

    @property
    def resolved_database_url(self) -> str:
        """The database URL in force."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'paceline.db'}"

    @property
    def resolved_artifact_url(self) -> str:
        """The artifact store in force, an fsspec URL."""
        return self.artifact_url or f"file://{self.data_dir.absolute() / 'artifacts'}"

    @property
    def resolved_url(self) -> str:
        """Where the CLI finds the service."""
        return self.url or f"http://{self.host}:{self.port}"
