"""Bandwidths against what nccl-tests itself printed, and by hand."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from workloads.bandwidth import algbw_bytes_per_s, busbw_bytes_per_s, is_divided

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "sample_logs" / "nccl_tests"
LOGS = {  # all of eight ranks
    "old_v2.10_allreduce_a100x8.txt": "all_reduce",
    "mid_v2.13_allreduce_h100x8.txt": "all_reduce",
    "old_v2.10_allgather_a100x8.txt": "all_gather",
    "old_v2.10_reducescatter_a100x8.txt": "reduce_scatter",
    "old_v2.10_alltoall_a100x8.txt": "all_to_all",
    "old_v2.10_broadcast_a100x8.txt": "broadcast",
    "old_v2.10_reduce_a100x8.txt": "reduce",
}
ROW = re.compile(
    r"^ +(?P<size>\d+) +\d+ +float .* (?P<last_eight>(?:\S+ +){7}\S+)\s*$", re.MULTILINE
)


def rows(text: str) -> Iterator[tuple[int, float, float, float]]:
    """Size in bytes, time in s, algbw and busbw in bytes/s of both placements."""
    for row in ROW.finditer(text):
        cells = row["last_eight"].split()
        for time_us, algbw, busbw in (cells[:3], cells[4:7]):
            yield int(row["size"]), float(time_us) / 1e6, float(algbw) * 1e9, float(busbw) * 1e9


def printed_as(bandwidth: float) -> Any:
    """About as much: two decimals of GB/s, of a time with four digits."""
    return pytest.approx(bandwidth, rel=0, abs=0.005e9 + 5e-4 * bandwidth)


@pytest.mark.parametrize("name", LOGS)
def test_bandwidths_are_those_nccl_tests_prints(name: str) -> None:
    if not SAMPLES.is_dir():
        missing("the shared collection of logs of nccl-tests")
    printed = list(rows((SAMPLES / name).read_text()))
    assert len(printed) > 50
    for size, time_s, algbw, busbw in printed:
        assert algbw_bytes_per_s(size, time_s) == printed_as(algbw)
        assert busbw_bytes_per_s(LOGS[name], size, time_s, 8) == printed_as(busbw)


@pytest.mark.parametrize(
    ("op", "num_ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 16, 1.875),
        ("gather", 4, 0.75),
        ("scatter", 4, 0.75),
        ("send_recv", 4, 1.0),
    ],
)
def test_bus_bandwidth_is_a_share_of_the_algorithms(op: str, num_ranks: int, factor: float) -> None:
    assert busbw_bytes_per_s(op, 1000, 0.5, num_ranks) == 2000 * factor


def test_a_barrier_has_no_bandwidth() -> None:
    with pytest.raises(KeyError):
        busbw_bytes_per_s("barrier", 1000, 0.5, 2)


def test_what_is_cut_counts_all_parts() -> None:
    assert is_divided("all_gather")
    assert not is_divided("all_reduce")
