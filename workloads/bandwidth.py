"""Bandwidth of collectives as nccl-tests defines it. S message in bytes, t seconds, n ranks.

S is the largest tensor a rank holds: what it puts in or gets for most operations, what all ranks
put in or get together for those that divide it into a part for each (`is_divided`).
"""

# By operation: bytes that cross the busiest link, as a share of S (nccl-tests,
# doc/PERFORMANCE.md, "Bus bandwidth").
_BUS_FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "send_recv": lambda n: 1.0,
}
_DIVIDED = {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}


def algbw_bytes_per_s(message_bytes: int, time_s: float) -> float:
    """Algorithm bandwidth: S / t. It depends on the number of ranks."""
    return message_bytes / time_s


def busbw_bytes_per_s(op: str, message_bytes: int, time_s: float, num_ranks: int) -> float:
    """Bus bandwidth: what a link must carry, comparable with its speed whatever n is.

    KeyError for an operation that has none. Below the limit of a link only where data crosses it
    as a ring's would: trees and switches that sum can seem faster.
    """
    return _BUS_FACTORS[op](num_ranks) * algbw_bytes_per_s(message_bytes, time_s)


def is_divided(op: str) -> bool:
    """Whether the message of an operation has a part for each rank."""
    return op in _DIVIDED
