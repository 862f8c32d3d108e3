"""Settings: the only reader of the environment on the service side (`PACELINE_*`)."""

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LONGEST_S = 7 * 86400.0


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
    port: int = Field(default=8321, ge=1, le=65535, description="Port to listen on.")
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
        default=3,
        ge=1,
        le=1000,
        description="A job that loses so many workers without a pair has failed.",
    )
    kill_grace_s: float = Field(default=10.0, ge=0, description="From SIGTERM to SIGKILL.")
    reconcile_s: float = Field(default=10.0, gt=0, description="How often lost work is looked for.")
    idempotency_s: float = Field(
        default=86400.0, gt=0, description="How long the answer to an idempotency key is kept."
    )
    stall_s: float = Field(default=60.0, gt=0, description="A trial silent for so long has hung.")
    start_s: float = Field(
        default=180.0, gt=0, description="A trial may take so long to its first step."
    )
    trial_user: str = Field(
        default="", description="User as whom set-up and trials run; empty: the worker's own."
    )
    max_trial_processes: int = Field(
        default=32768, ge=0, description="Processes and threads of the trials' user; 0: no limit."
    )
    max_trial_file_bytes: int = Field(
        default=2**36, ge=0, description="Size of a file that a trial writes; 0: no limit."
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
        return _is_in_process(self.broker_url)

    @property
    def resolved_database_url(self) -> str:
        """The database URL in force."""
        if self.database_url:
            return self.database_url
        path = str(self.data_dir.absolute() / "paceline.db")
        return URL.create("sqlite", database=path).render_as_string()  # quotes `?` and `#`

    @property
    def resolved_artifact_url(self) -> str:
        """The artifact store in force, an fsspec URL."""
        return self.artifact_url or f"file://{self.data_dir.absolute() / 'artifacts'}"

    @property
    def own_url(self) -> str:
        """Where the service listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def resolved_url(self) -> str:
        """Where the CLI finds the service."""
        return self.url or self.own_url

    @field_validator("database_url")
    @classmethod
    def _is_known_database(cls, value: str) -> str:
        try:
            is_known = not value or make_url(value).get_backend_name() in ("sqlite", "postgresql")
        except ArgumentError:
            is_known = False
        if not is_known:
            example = "postgresql+psycopg://USER:PASSWORD@HOST/NAME"
            raise ValueError(f"It must be the URL of PostgreSQL or SQLite, such as {example}")
        return value

    @field_validator("host")
    @classmethod
    def _is_loopback_in_standalone(cls, value: str, info: ValidationInfo) -> str:
        if _is_in_process(info.data["broker_url"]) and value not in LOOPBACK:
            raise ValueError(
                "A standalone service asks for no token, so it listens on this machine only, at "
                f"{' or '.join(LOOPBACK)}. To serve others, set PACELINE_BROKER_URL to Redis; to "
                "ask a service elsewhere, set PACELINE_URL"
            )
        return value

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        parts = urlsplit(value)  # refuses brackets that are not closed, `port` what is no port
        is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if value and not is_http:
            raise ValueError("It must be like http://127.0.0.1:8321 or https://HOST")
        return value

    @field_validator("*")
    @classmethod
    def _is_bounded(cls, value: Any, info: ValidationInfo) -> Any:
        """Durations are added to points in time, which have an end; their names end in `_s`."""
        is_duration = info.field_name is not None and info.field_name.endswith("_s")
        if is_duration and not value <= _LONGEST_S:
            raise ValueError(f"It must be at most {_LONGEST_S:g} seconds, a week")
        return value


def _is_in_process(broker_url: str) -> bool:
    return broker_url.startswith("memory://")
