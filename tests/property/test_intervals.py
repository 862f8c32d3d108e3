"""Interval arithmetic and breakdowns against slow, obvious versions of themselves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from service.stats.breakdown import Category, breakdown
from service.stats.intervals import common, length, union, without
from service.stats.trace import Event, Kind, Trace

quick = settings(max_examples=150, deadline=None, derandomize=True)

END = 30
instants = st.integers(0, END)
raw = st.lists(st.tuples(instants, instants), max_size=8)
HOST = (Kind.OPERATOR, Kind.ISSUE, Kind.RUNTIME)
DEVICE = (Kind.KERNEL, Kind.COLLECTIVE)


def members(intervals):
    return {t for start, end in intervals for t in range(start, end)}


def is_tidy(intervals):
    edges = [edge for interval in intervals for edge in interval]
    return edges == sorted(set(edges))


@quick
@given(raw, raw)
def test_sets_of_instants_combine_as_sets_do(first, second):
    one, other = union(first), union(second)
    assert members(one) == members(first)
    assert members(common(one, other)) == members(first) & members(second)
    assert members(without(one, other)) == members(first) - members(second)
    assert length(one) == len(members(first))
    assert all(map(is_tidy, (one, common(one, other), without(one, other))))


@st.composite
def lanes(draw, kinds, lane, device=None):
    """Events of a thread: any two of them nest or are apart."""
    kept = []
    for start, end in draw(raw):
        if start < end and all(
            end <= s or e <= start or (s <= start and end <= e) or (start <= s and e <= end)
            for s, e in kept
        ):
            kept.append((start, end))
    return [
        Event(
            kind=draw(st.sampled_from(kinds)),
            name=draw(st.sampled_from(["a", "b"])),
            start_ns=start,
            end_ns=end,
            lane=lane,
            device=device,
        )
        for start, end in dict.fromkeys(kept)
    ]


@st.composite
def traces(draw):
    events = draw(lanes([*HOST, Kind.DATA], "main")) + draw(lanes([Kind.COLLECTIVE], "gloo"))
    if draw(st.booleans()):
        events += draw(lanes(DEVICE, "stream", device=0))
    edges = sorted(draw(st.sets(instants, min_size=2, max_size=6)))
    steps = [
        Event(kind=Kind.STEP, name="ProfilerStep#1", start_ns=start, end_ns=end, lane="main")
        for start, end in zip(edges[::2], edges[1::2], strict=False)
    ]
    return Trace(rank=0, events=tuple(steps + events), software={})


def innermost(events, lane, t):
    """The event that runs on a lane at an instant: what is within a loader is the loader's."""
    active = [e for e in events if e.lane == lane and e.start_ns <= t < e.end_ns]
    active.sort(key=lambda event: event.end_ns - event.start_ns)
    return next((e for e in reversed(active) if e.kind is Kind.DATA), *active[:1] or [None])


def claim(trace, t):
    """The category of one instant."""
    events = [event for event in trace.events if event.kind is not Kind.STEP]
    running = {e.kind for e in (innermost(events, "main", t),) if e is not None}
    on_device = {e.kind for e in events if e.device == 0 and e.start_ns <= t < e.end_ns}
    moving = innermost(events, "gloo", t) is not None or Kind.COLLECTIVE in on_device
    if trace.has_device:
        host = running & set(HOST)
        computes, waits = Kind.KERNEL in on_device, moving
    else:
        host = set()
        computes, waits = Kind.OPERATOR in running, moving or Kind.ISSUE in running
    order = [
        (computes, Category.COMPUTE),
        (waits, Category.COMMUNICATION),
        (Kind.DATA in running, Category.DATA),
        (host, Category.HOST),
    ]
    return next((category for holds, category in order if holds), Category.IDLE)


@quick
@given(traces())
def test_a_breakdown_is_what_every_instant_tells(trace):
    found = breakdown(trace)
    inside = members((step.start_ns, step.end_ns) for step in trace.steps)
    claims = [claim(trace, t) for t in inside]
    for category in Category:
        parts = sum(part.time_ns for part in found.parts if part.category is category)
        assert parts == claims.count(category)
    assert sum(part.time_ns for part in found.parts) == found.time_ns == len(inside)


@quick
@given(traces())
def test_operators_add_up_to_their_category(trace):
    found = breakdown(trace)
    category = Category.HOST if trace.has_device else Category.COMPUTE
    own = sum(part.time_ns for part in found.operators if part.category is category)
    assert own == sum(part.time_ns for part in found.parts if part.category is category)
