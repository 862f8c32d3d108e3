"""Sets of instants as sorted, disjoint, non-empty intervals of integers, such as nanoseconds.

Integers, so that parts of a step add up to it exactly.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Interval = tuple[int, int]  # from its first instant up to its second, which is left out
Intervals = Sequence[Interval]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The instants of any of them, which may come in any order and overlap."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def common(one: Intervals, other: Intervals) -> list[Interval]:
    """The instants of both; quick where the first is short, however long the second."""
    found: list[Interval] = []
    i, j = 0, bisect_right(other, one[0][0], key=lambda each: each[1]) if one else 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            found.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(one: Intervals, other: Intervals) -> list[Interval]:
    """The instants of the first that are not in the second."""
    if not one:
        return []
    edges = [one[0][0], *(edge for interval in other for edge in interval), one[-1][1]]
    gaps = [(edges[i], edges[i + 1]) for i in range(0, len(edges), 2) if edges[i] < edges[i + 1]]
    return common(one, gaps)


def length(intervals: Intervals) -> int:
    """How many instants they hold."""
    return sum(end - start for start, end in intervals)
