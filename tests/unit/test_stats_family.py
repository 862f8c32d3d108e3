import numpy as np
import pytest

from service.stats.family import benjamini_hochberg, holm


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, never falling: .02 .03 .06 .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_never_exceeds_one_and_takes_one_hypothesis_as_it_is():
    assert holm([0.4, 0.6, 0.9]) == [1.0, 1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_benjamini_hochberg_by_hand():
    # Sorted .01 .02 .03 .04 .5, times 5/rank: .05 .05 .05 .05 .5.
    adjusted = benjamini_hochberg([0.5, 0.01, 0.02, 0.03, 0.04])
    assert adjusted == pytest.approx([0.5, 0.05, 0.05, 0.05, 0.05])


def test_benjamini_hochberg_on_the_example_of_the_paper():
    # Benjamini & Hochberg 1995, section 3: 15 p-values of Neuhaus et al.; q = .05 rejects four.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000]
    assert sum(np.array(benjamini_hochberg(p)) <= 0.05) == 4
    assert sum(np.array(holm(p)) <= 0.05) == 3


def test_ties_share_their_value():
    assert holm([0.02, 0.02]) == pytest.approx([0.04, 0.04])
    assert benjamini_hochberg([0.02, 0.02]) == pytest.approx([0.02, 0.02])
    assert benjamini_hochberg([]) == []
