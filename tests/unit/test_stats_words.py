import math

import pytest

from service.stats.words import count, fraction_percent, listed, mebibytes, p_value, percent


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.102, "+10.2 %"),
        (0.95, "-5.0 %"),
        (1.0013, "+0.13 %"),
        (1.00996, "+1.0 %"),
        (1.0, "0.00 %"),
        (0.99999, "0.00 %"),
        (1.00001, "0.00 %"),
    ],
)
def test_percent(ratio, text):
    assert percent(math.log(ratio)) == text


def test_fractions():
    assert fraction_percent(0.02) == "2.0 %"
    assert fraction_percent(0.001) == "0.10 %"


def test_p_values():
    assert p_value(0.0131) == "p = 0.013"
    assert p_value(1e-6) == "p < 0.0001"


def test_counts_and_lists():
    assert (count(1, "pair"), count(3, "pair")) == ("1 pair", "3 pairs")
    assert (listed([3]), listed([3, 5, 8])) == ("3", "3, 5 and 8")


def test_mebibytes():
    assert mebibytes(-(2**31), sign="+") == "-2,048.0 MiB"
