"""What events of a thread do themselves, rather than the events within them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from service.stats.intervals import Interval
from service.stats.trace import Event, Kind

_OPAQUE = {Kind.DATA, Kind.COLLECTIVE}  # what runs within them is a part of them


@dataclass(frozen=True, kw_only=True)
class Own:
    """An event of the host, what it ran within, and when none of its children ran."""

    event: Event
    parent: Event | None
    intervals: list[Interval] = field(default_factory=list)


def own_times(events: Iterable[Event]) -> Iterator[Own]:
    """The events of the host, but for steps and what is within a loader or a collective."""
    lanes: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.device is None and event.kind is not Kind.STEP:
            lanes[event.lane].append(event)
    for lane in lanes.values():
        yield from _Lane().run(lane)


class _Lane:
    """A thread, followed from event to event: the last on its stack is what runs.

    An event that outlasts its parent, by a rounding of the clock, runs until its own end.
    """

    def __init__(self) -> None:
        self._stack: list[Own] = []
        self._now = 0

    def run(self, events: Sequence[Event]) -> list[Own]:
        found: list[Own] = []
        for event in sorted(events, key=lambda event: (event.start_ns, -event.end_ns)):
            self._advance(event.start_ns)
            parent = self._stack[-1].event if self._stack else None
            if parent is None or parent.kind not in _OPAQUE:
                self._stack.append(Own(event=event, parent=parent))
                found.append(self._stack[-1])
        self._advance(max((event.end_ns for event in events), default=0))
        return found

    def _advance(self, until_ns: int) -> None:
        """Move on; the time goes to what runs, and what has ended leaves the stack."""
        while self._stack:
            top = self._stack[-1]
            end_ns = min(top.event.end_ns, until_ns)
            if self._now < end_ns:
                top.intervals.append((self._now, end_ns))
                self._now = end_ns
            if top.event.end_ns > until_ns:
                break
            self._stack.pop()
        self._now = max(self._now, until_ns)
