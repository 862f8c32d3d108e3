"""What can go wrong and be told to a caller. Errors carry ids and a remedy; they know no HTTP.

PacelineError
├── NotFound            no such project, run, cluster, revision ...
├── Conflict            the request contradicts what is stored
├── Busy                another request holds what this one needs: try again soon
├── Refused             the request cannot be served as asked; names the field and the remedy
│   └── ManifestError   paceline.yml is wrong; names file, line and field
├── Unauthenticated     who asks is not known: no token, or one that is not valid
├── Forbidden           who asks is known and may not do this; names what is lacking
├── LeaseLost           another worker owns the job now: stop, write nothing
├── WorkerStopping      the worker is told to end: give the job back
├── Interrupted         a process of ours was killed under the worker: begin again
├── MeasurementFailed   preparing or measuring failed; becomes data (a FailureReason) on the run
└── ServiceUnreachable  the CLI cannot reach the service
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.domain import Failure


class PacelineError(Exception):
    """The root; its text is a sentence for people."""


class NotFound(PacelineError):
    """No stored object answers to that name or id."""

    def __init__(self, kind: str, ident: object) -> None:
        super().__init__(f"There is no {kind} {str(ident)!r}.")
        self.kind = kind
        self.ident = str(ident)


class Conflict(PacelineError):
    """The request contradicts what is stored."""


class Busy(PacelineError):
    """Another request holds what this one needs, for longer than it may wait."""


class Refused(PacelineError):
    """The request cannot be served as asked. `field` is the path of the offending value."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field
        self.detail = detail


class ManifestError(Refused):
    """paceline.yml is wrong at `line` (from 1), in `field`."""

    def __init__(self, *, source: str, line: int, field: str, detail: str) -> None:
        super().__init__(field, f"{source}, line {line}, {field}: {detail}")
        self.line = line


class Unauthenticated(PacelineError):
    """Nobody valid asks: no token, or one that is malformed, unknown, expired or revoked."""


class Forbidden(PacelineError):
    """The holder of a valid token may not do this."""


class LeaseLost(PacelineError):
    """The lease on a job ran out or was taken over: what this worker knows must not be written."""


class WorkerStopping(PacelineError):
    """The worker is told to end; the job goes back to the queue as it is."""


class Interrupted(PacelineError):
    """A process of ours was killed, and with it what it did; that can be done again."""


class MeasurementFailed(PacelineError):
    """A step of preparing or measuring failed; the run records the failure as data."""

    def __init__(self, failure: "Failure", log: str = "") -> None:
        super().__init__(failure.detail)
        self.failure = failure
        self.log = log


class ServiceUnreachable(PacelineError):
    """Nothing answers at the service's address."""
