"""Samples as blobs: what goes in comes out, bit by bit, and small."""

import numpy as np
import pytest

from service.db.base import pack, unpack


@pytest.mark.parametrize(
    "values",
    [
        [0.01],
        [],
        [0.0, -0.0, 1e-308, 1e308, 5e-324],
        [1, 2, 2**62, -(2**62)],
        np.arange(20, dtype=np.int32)[::2],
        np.linspace(0, 1, 300)[::-1],
        np.array([1.5, 2.5], dtype=np.float32),
    ],
)
def test_samples_come_back_as_they_were(values: object):
    given, found = np.asarray(values), unpack(pack(values))
    np.testing.assert_array_equal(found, given)
    assert found.dtype == (np.int64 if np.issubdtype(given.dtype, np.integer) else np.float64)


def test_what_is_not_a_number_comes_back_too():
    found = unpack(pack([np.nan, np.inf, -np.inf]))
    assert np.isnan(found[0])
    assert list(found[1:]) == [np.inf, -np.inf]


def test_shuffling_makes_alike_values_small():
    times = 0.01 + np.random.default_rng(1).normal(0, 1e-5, 4000)
    peaks = np.full(4000, 2**31 + 12345)
    assert len(pack(times)) < 0.9 * times.nbytes
    assert len(pack(peaks)) < 0.01 * peaks.nbytes


def test_a_damaged_blob_is_an_error_not_a_number():
    with pytest.raises(Exception, match="decompress"):
        unpack(b"f" + b"nonsense")
