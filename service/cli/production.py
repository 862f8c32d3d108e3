"""The settings of production: a database and a broker that several machines share."""

from sqlalchemy import make_url

from service.config import Settings
from service.errors import Refused


def production_settings() -> Settings:
    """The settings in force. Raises Refused where they are those of one process alone."""
    settings = Settings()
    if settings.is_standalone:
        detail = (
            f"PACELINE_BROKER_URL is {settings.broker_url}, which only one process hears. Name a "
            "Redis (redis://HOST:6379/0), or start everything in one process with `paceline up`."
        )
        raise Refused("broker_url", detail)
    if make_url(settings.resolved_database_url).get_backend_name() != "postgresql":
        detail = (
            "PACELINE_DATABASE_URL names no PostgreSQL, and an SQLite file is not for several "
            "machines. Name one (postgresql+psycopg://USER:PASSWORD@HOST/NAME), or start "
            "everything in one process with `paceline up`."
        )
        raise Refused("database_url", detail)
    return settings
