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

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.stats.intervals import Interval, common, length, union, without
from service.stats.nesting import Own, own_times
from service.stats.trace import Event, Kind, Trace


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

    The operators of category compute are those whose work it was: with a GPU by the times of their
    kernels, which then are the calls. Those of category host are there only with a GPU, by the time
    in which it was idle while they ran. A GPU runs behind its host: its times are of what ran
    during the steps, its calls those that the steps launched.
    """

    num_steps: int
    time_ns: int
    parts: tuple[Part, ...]
    operators: tuple[Part, ...]


def breakdown(trace: Trace) -> Breakdown:
    """The breakdown of a trace's steps. Raises ValueError where it has none."""
    steps = union((step.start_ns, step.end_ns) for step in trace.steps)
    if not steps:
        raise ValueError("the trace has no step: annotate each as `ProfilerStep#N`")
    own = list(own_times(trace.events))
    launches = _launches(own)
    claims = list(_settled(_claims(trace, own), steps))
    when = {category: intervals for category, _, intervals in claims}
    return Breakdown(
        num_steps=len(trace.steps),
        time_ns=length(steps),
        parts=tuple(_parts(trace, claims, launches, steps)),
        operators=tuple(_operators(trace, own, launches, steps, when)),
    )


_Launches = Mapping[int | None, Own]
_Claim = tuple[Category, str, list[Interval]]
_ON_HOST = (Kind.OPERATOR, Kind.ISSUE, Kind.RUNTIME)


def _parts(
    trace: Trace, claims: Iterable[_Claim], launches: _Launches, steps: Sequence[Interval]
) -> Iterator[Part]:
    """Each claim's time, and how often its collective was called."""
    collectives = (e for e in trace.events if e.kind in (Kind.COLLECTIVE, Kind.ISSUE))
    num_calls = Counter(e.name for e in collectives if _is_called_within(steps, e, launches))
    for category, name, intervals in claims:
        time_ns = length(intervals)
        yield Part(category=category, name=name, time_ns=time_ns, num_calls=num_calls[name])


def _settled(claims: Iterable[_Claim], steps: Sequence[Interval]) -> Iterator[_Claim]:
    """What each claim gets of the steps, after those before it; what is left is idle."""
    left = list(steps)
    for category, name, intervals in claims:
        gets = common(left, union(intervals))
        left = without(left, gets)
        yield category, name, gets
    yield Category.IDLE, "", left


def _claims(trace: Trace, own: Sequence[Own]) -> Iterator[_Claim]:
    """Category and name, and when they ran, in the order of precedence."""
    runs: dict[Kind, list[Interval]] = defaultdict(list)
    for item in own:
        runs[item.event.kind] += item.intervals
    kernels = [(e.start_ns, e.end_ns) for e in trace.events if e.kind is Kind.KERNEL]
    yield Category.COMPUTE, "", kernels if trace.has_device else runs[Kind.OPERATOR]
    yield from _collectives(
        (e.name, [(e.start_ns, e.end_ns)]) for e in trace.events if e.kind is Kind.COLLECTIVE
    )
    if not trace.has_device:  # with a device the host does not wait, as a rule
        yield from _collectives(
            (item.event.name, item.intervals) for item in own if item.event.kind is Kind.ISSUE
        )
    yield Category.DATA, "", runs[Kind.DATA]
    if trace.has_device:
        yield Category.HOST, "", [each for kind in _ON_HOST for each in runs[kind]]


def _collectives(runs: Iterable[tuple[str, list[Interval]]]) -> Iterator[_Claim]:
    """The claims of collectives, by name, the first that ran first."""
    named: dict[str, list[Interval]] = defaultdict(list)
    for name, intervals in runs:
        named[name] += intervals
    for name, intervals in named.items():
        yield Category.COMMUNICATION, name, intervals


def _operators(
    trace: Trace,
    own: Sequence[Own],
    launches: _Launches,
    steps: Sequence[Interval],
    when: Mapping[Category, Sequence[Interval]],
) -> Iterator[Part]:
    """Operators by name and shapes: what they do on the host, and with a GPU their kernels too."""
    category = Category.HOST if trace.has_device else Category.COMPUTE
    kinds = _ON_HOST if trace.has_device else (Kind.OPERATOR,)
    calls = [item for item in own if item.event.kind in kinds]
    runs = [(category, item.event, item.event, item.intervals) for item in calls]
    for event in trace.events:
        if event.kind is Kind.KERNEL:
            by = _operator_of(event, launches) or event
            runs.append((Category.COMPUTE, by, event, [(event.start_ns, event.end_ns)]))
    rows: dict[tuple[Category, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for category, by, event, intervals in runs:
        row = rows[category, by.name, by.shapes]
        row[0] += length(common(intervals, when[category]))
        row[1] += _is_called_within(steps, event, launches)
    for (category, name, shapes), (time_ns, num_calls) in rows.items():
        if time_ns or num_calls:
            yield Part(
                category=category, name=name, shapes=shapes, time_ns=time_ns, num_calls=num_calls
            )


def _launches(own: Sequence[Own]) -> _Launches:
    """The calls of the device's library, by what correlates them to what they launched."""
    calls = (item for item in own if item.event.kind is Kind.RUNTIME)
    return {item.event.correlation: item for item in calls if item.event.correlation is not None}


def _operator_of(kernel: Event, launches: _Launches) -> Event | None:
    """The operator that launched a kernel, if one did."""
    launch = launches.get(kernel.correlation)
    parent = launch.parent if launch else None
    return parent if parent and parent.kind is Kind.OPERATOR else None


def _is_called_within(steps: Sequence[Interval], event: Event, launches: _Launches) -> bool:
    """Whether an event began within a step; on a device, whether it was launched there."""
    launch = launches.get(event.correlation)
    called = launch.event if launch and event.device is not None else event
    return any(start <= called.start_ns < end for start, end in steps)
