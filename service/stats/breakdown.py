"""Where the time of a rank's steps went: every instant belongs to one category.

An instant goes to the first of these that claims it, so that the parts add up to the step:

    compute        an operator runs; with a GPU: a kernel or a copy does
    communication  a collective is under way and nothing computes: it is exposed
    data           the loader is asked for a batch
    host           only with a GPU, which is idle while the host runs operators or its library
    idle           nothing recorded runs: Python between operators, a sleep, a wait

Overlap by interval union, as in Holistic Trace Analysis (temporal breakdown, communication
computation overlap). On the host operators nest: the innermost is what runs, so that a wait within
an operator is no computation, and each counts its own time once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.stats.intervals import Interval, common, length, union, without
from service.stats.trace import Event, Kind, Trace

_OPAQUE = {Kind.DATA, Kind.COLLECTIVE}  # what runs within them on their lane is a part of them


class Category(StrEnum):
    """What a part of a step was spent on."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    DATA = "data"
    HOST = "host"
    IDLE = "idle"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Time of one category, collective or operator in all profiled steps, and how often it ran."""

    category: Category
    name: str = ""  # the collective's or the operator's
    shapes: str = ""
    time_ns: int
    num_calls: int = 0


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """The profiled steps of a rank. `parts` add up to `time_ns`; `operators` explain some of them.

    The operators of category compute are those whose work it was: with a GPU by the time of their
    kernels. Those of category host are there only with a GPU, by their time on the host.
    """

    num_steps: int
    time_ns: int
    parts: tuple[Part, ...]
    operators: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class _Own:
    """An event of the host, when it ran itself rather than a child, and what called it."""

    event: Event
    parent: Event | None
    intervals: list[Interval]


def breakdown(trace: Trace) -> Breakdown:
    """The breakdown of a trace's steps. Raises ValueError where it has none."""
    steps = union((step.start_ns, step.end_ns) for step in trace.steps)
    if not steps:
        raise ValueError("the trace has no step: annotate each as `ProfilerStep#N`")
    own = list(_own_times(trace.events))
    return Breakdown(
        num_steps=len(trace.steps),
        time_ns=length(steps),
        parts=tuple(_parts(trace, own, steps)),
        operators=tuple(_operators(trace, own, steps)),
    )


def _parts(trace: Trace, own: Sequence[_Own], steps: list[Interval]) -> Iterator[Part]:
    """The categories in order, each with what none before it has claimed."""
    left = steps
    starts = _num_calls(trace.events, steps)
    for (category, name), intervals in _claims(trace, own):
        claimed = common(left, union(intervals))
        left = without(left, claimed)
        yield Part(
            category=category, name=name, time_ns=length(claimed), num_calls=starts.get(name, 0)
        )
    yield Part(category=Category.IDLE, time_ns=length(left))


_Claim = tuple[tuple[Category, str], list[Interval]]


def _claims(trace: Trace, own: Sequence[_Own]) -> Iterator[_Claim]:
    """Category and name, and when they ran, in the order of precedence."""
    runs: dict[Kind, list[Interval]] = defaultdict(list)
    for item in own:
        runs[item.event.kind] += item.intervals
    kernels = [(e.start_ns, e.end_ns) for e in trace.events if e.kind is Kind.KERNEL]
    computes = kernels if trace.has_device else runs[Kind.OPERATOR]
    yield (Category.COMPUTE, ""), computes
    yield from _collectives(
        (e.name, [(e.start_ns, e.end_ns)]) for e in trace.events if e.kind is Kind.COLLECTIVE
    )
    if not trace.has_device:  # there the host does not wait, as a rule
        yield from _collectives(
            (item.event.name, item.intervals) for item in own if item.event.kind is Kind.ISSUE
        )
    yield (Category.DATA, ""), runs[Kind.DATA]
    if trace.has_device:
        yield (Category.HOST, ""), runs[Kind.OPERATOR] + runs[Kind.ISSUE] + runs[Kind.RUNTIME]


def _collectives(runs: Iterable[tuple[str, list[Interval]]]) -> Iterator[_Claim]:
    """The claims of collectives, by name, the first that ran first."""
    named: dict[str, list[Interval]] = defaultdict(list)
    for name, intervals in runs:
        named[name] += intervals
    for name, intervals in named.items():
        yield (Category.COMMUNICATION, name), intervals


def _num_calls(events: Iterable[Event], steps: Sequence[Interval]) -> dict[str, int]:
    """How many collectives of each name began within a step."""
    counts: dict[str, int] = defaultdict(int)
    for event in events:
        if event.kind in (Kind.COLLECTIVE, Kind.ISSUE) and _is_within(event, steps):
            counts[event.name] += 1
    return counts


def _operators(trace: Trace, own: Sequence[_Own], steps: Sequence[Interval]) -> Iterator[Part]:
    """Operators by name and shapes: what they do on the host, and with a GPU their kernels too."""
    of_host = Category.HOST if trace.has_device else Category.COMPUTE
    runs = [(of_host, item.event, item.event, item.intervals) for item in own if _computes(item)]
    launched = _launched(own)
    for event in trace.events:
        if event.kind is Kind.KERNEL:
            by = launched.get(event.correlation, event)
            runs.append((Category.COMPUTE, by, event, [(event.start_ns, event.end_ns)]))
    rows: dict[tuple[Category, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for category, by, event, intervals in runs:
        row = rows[category, by.name, by.shapes]
        row[0] += length(common(intervals, steps))
        row[1] += _is_within(event, steps)
    for (category, name, shapes), (time_ns, num_calls) in rows.items():
        if time_ns or num_calls:
            yield Part(
                category=category, name=name, shapes=shapes, time_ns=time_ns, num_calls=num_calls
            )


def _computes(item: _Own) -> bool:
    return item.event.kind is Kind.OPERATOR


def _launched(own: Sequence[_Own]) -> dict[int | None, Event]:
    """The operator that launched a kernel, by the correlation of the call."""
    return {
        item.event.correlation: item.parent
        for item in own
        if item.event.kind is Kind.RUNTIME
        and item.event.correlation is not None
        and item.parent is not None
        and item.parent.kind is Kind.OPERATOR
    }


def _is_within(event: Event, steps: Sequence[Interval]) -> bool:
    return any(start <= event.start_ns < end for start, end in steps)


def _own_times(events: Iterable[Event]) -> Iterator[_Own]:
    """The host's events, lane by lane."""
    lanes: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.device is None and event.kind is not Kind.STEP:
            lanes[event.lane].append(event)
    for lane in lanes.values():
        yield from _unnested(lane)


def _unnested(lane: Iterable[Event]) -> list[_Own]:
    """Each event of a lane with the time in which none of its children ran.

    outer ├────┐    ┌────┤     a child that outlasts its parent, by a rounding of the
    inner      ├────┤          clock, ends with the time of both
    """
    found: list[_Own] = []
    stack: list[_Own] = []
    now = 0

    def run(until: int) -> None:
        nonlocal now
        if now < until:
            stack[-1].intervals.append((now, until))
            now = until

    for event in sorted(lane, key=lambda event: (event.start_ns, -event.end_ns)):
        while stack and stack[-1].event.end_ns <= event.start_ns:
            run(stack[-1].event.end_ns)
            stack.pop()
        if stack and stack[-1].event.kind in _OPAQUE:
            continue
        if stack:
            run(event.start_ns)
        now = max(now, event.start_ns)
        item = _Own(event=event, parent=stack[-1].event if stack else None, intervals=[])
        stack.append(item)
        found.append(item)
    while stack:
        run(stack[-1].event.end_ns)
        stack.pop()
    return found
