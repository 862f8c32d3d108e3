from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.stats.family import benjamini_hochberg, holm

p_lists = st.lists(st.floats(0, 1), min_size=1, max_size=6)
quick = settings(max_examples=100, deadline=None, derandomize=True)


def closed_bonferroni(p):
    """Holm, the slow way: a hypothesis falls only with every intersection that contains it."""
    indices = range(len(p))
    subsets = [s for size in range(1, len(p) + 1) for s in combinations(indices, size)]
    return [
        max(min(1.0, len(s) * min(p[j] for j in s)) for s in subsets if i in s) for i in indices
    ]


def step_up(p):
    """BH, the slow way: the least q = p_j m / rank_j over all p_j at least as large."""
    rank = {j: sum(other <= p[j] for other in p) for j in range(len(p))}
    return [
        min(min(1.0, p[j] * len(p) / rank[j]) for j in range(len(p)) if p[j] >= p[i])
        for i in range(len(p))
    ]


@quick
@given(p_lists)
def test_holm_is_the_closure_of_bonferroni(p):
    assert holm(p) == pytest.approx(closed_bonferroni(p))


@quick
@given(p_lists)
def test_benjamini_hochberg_is_step_up(p):
    assert benjamini_hochberg(p) == pytest.approx(step_up(p))


@quick
@given(p_lists, st.data())
def test_both_are_monotone_and_list_and_array_agree(p, data):
    smaller = [data.draw(st.floats(0, value)) for value in p]
    for adjust in (holm, benjamini_hochberg):
        assert adjust(np.array(p)) == adjust(p)
        pairs = zip(adjust(smaller), adjust(p), p, strict=True)
        assert all(low <= high + 1e-12 and value <= high + 1e-12 for low, high, value in pairs)
