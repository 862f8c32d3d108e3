"""/metrics: what Paceline tells Prometheus of itself. docs/operations.md says what each means."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from sqlalchemy import Engine

from service.api.access import needs
from service.api.collector import DatabaseCollector
from service.api.described import Responses, problems
from service.db.session import Message, Send, Sessions
from service.domain import Scope

router = APIRouter(tags=["health"])

_FORMATS: Responses = {
    HTTPStatus.OK: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}
}


class Monitor:
    """What this process counts, and what the database knows, in a registry of the application's."""

    def __init__(self, engine: Engine, sessions: Sessions) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(DatabaseCollector(engine, sessions))
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "paceline_http_requests_total",
            "Requests answered, by the route's template and the class of the status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._request_duration = Histogram(
            "paceline_http_request_duration_seconds",
            "From a request's arrival to the beginning of its answer.",
            ["method", "route"],
            registry=self.registry,
        )
        self._sent = Counter(
            "paceline_messages_sent_total",
            "Messages the broker took from this process.",
            ["task"],
            registry=self.registry,
        )
        self._failed = Counter(
            "paceline_messages_failed_total",
            "Messages the broker did not take; the reconciler sends them again.",
            ["task"],
            registry=self.registry,
        )

    def answered(self, *, method: str, route: str, status: int, duration_s: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, f"{status // 100}xx").inc()
        self._request_duration.labels(method, route).observe(duration_s)

    def counted(self, send: Send) -> Send:
        """The same sending, its messages counted."""

        def count(message: Message) -> None:
            try:
                send(message)
            except Exception:
                self._failed.labels(message.task).inc()
                raise
            self._sent.labels(message.task).inc()

        return count


@router.get(
    "/metrics",
    operation_id="service_metrics",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses=_FORMATS | problems(),
)
def metrics(request: Request) -> Response:
    """The service's own metrics: Prometheus's text format, or OpenMetrics for who accepts it."""
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    content = encode(request.app.state.monitor.registry)
    return Response(content, headers={"Content-Type": media_type})
