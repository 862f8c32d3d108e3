"""`paceline api`: the HTTP API and the pages in production.

One process for one port: each tells Prometheus of its own requests. For more, start more.
"""

from ipaddress import ip_network

from service import logs
from service.cli.production import production_settings
from service.cli.serving import serve
from service.errors import Refused
from service.main import create_app


def api() -> None:
    """Serve API and pages. Database, broker and workers are elsewhere; see docs/operations.md."""
    settings = production_settings()
    proxies = trusted_proxies(settings.proxy_addresses)
    logs.configure(settings)
    serve(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        server_header=False,
    )


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
