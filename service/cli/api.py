"""`paceline api`: the HTTP API and the pages in production, several processes on one port."""

import logging
from ipaddress import ip_network

import uvicorn
from fastapi import FastAPI

from service.cli.production import production_settings
from service.config import Settings
from service.errors import Refused
from service.main import create_app

# Time for open requests after SIGTERM; whoever stops the service must wait a little longer.
DRAIN_S = 20
# A process that is silent for so long is replaced. It is silent while it starts, too, and a busy
# machine takes its time: too short a limit would replace it again and again.
_SILENCE_S = 60


def api() -> None:
    """Serve API and pages. Database, broker and workers are elsewhere; see docs/operations.md."""
    settings = production_settings()
    proxies = trusted_proxies(settings.proxy_addresses)
    _log()
    create_app(settings)  # what it refuses is said once, and not by each process for ever
    uvicorn.run(
        "service.cli.api:application",  # by name: each process builds its own
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.api_processes,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        timeout_graceful_shutdown=DRAIN_S,
        timeout_worker_healthcheck=_SILENCE_S,
        server_header=False,
        log_config=None,
    )


def application() -> FastAPI:
    """The application of one process."""
    _log()
    return create_app(Settings())


def _log() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s"
    )
    for noisy in ("alembic", "httpx", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def trusted_proxies(addresses: str) -> list[str]:
    """Addresses and networks whose X-Forwarded-* headers are believed. Raises Refused.

    A name or `*` is refused: anybody could then choose the address that the logs show.
    """
    found = [part.strip() for part in addresses.split(",") if part.strip()]
    for part in found:
        try:
            ip_network(part)
        except ValueError as error:
            detail = (
                f"PACELINE_PROXY_ADDRESSES: {part!r} is neither an IP address nor a network such "
                "as 10.0.0.0/24."
            )
            raise Refused("proxy_addresses", detail) from error
    return found
