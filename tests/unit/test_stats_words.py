import math

import pytest

from service.stats.words import (
    count,
    fraction_percent,
    listed,
    mebibytes,
    p_value,
    percent,
    quantity,
)


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


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (65, "", "65"),
        (1345, "", "1,345"),
        (0, "bytes", "0 B"),
        (2**30, "bytes", "1 GiB"),
        (30_020_000_000, "bytes", "27.96 GiB"),
        (-(2**20), "bytes", "-1 MiB"),
        (215_200_000_000_000, "FLOP", "215.2 TFLOP"),
        (2 * 10**19, "FLOP", "20,000 PFLOP"),
    ],
)
def test_counts_in_a_unit_for_people(value: int, unit: str, text: str):
    assert quantity(value, unit) == text
