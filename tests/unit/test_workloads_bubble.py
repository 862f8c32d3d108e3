"""The pipeline bubble against the papers' formulas, in whole unit times."""

import pytest

from workloads.static.bubble import Pass, order_of, timeline

pytestmark = pytest.mark.torch

SIZES = [(2, 4), (2, 8), (4, 8), (4, 16), (8, 32)]  # ranks, microbatches


@pytest.mark.parametrize(("ranks", "microbatches"), [*SIZES, (3, 7), (4, 5)])
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_one_stage_a_rank(schedule: str, ranks: int, microbatches: int) -> None:
    found = timeline(order_of(schedule, ranks, microbatches))
    assert found.idle == (3 * (ranks - 1),) * ranks
    assert found.bubble_ratio == pytest.approx((ranks - 1) / (microbatches + ranks - 1))


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize("schedule", ["LoopedBFS", "Interleaved1F1B"])
def test_two_stages_a_rank_halve_it(schedule: str, ranks: int, microbatches: int) -> None:
    found = timeline(order_of(schedule, ranks, microbatches))
    assert found.bubble_ratio == pytest.approx((ranks - 1) / (2 * microbatches + ranks - 1))


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize("schedule", ["InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"])
def test_zero_bubbles_leave_what_fills_and_drains(
    schedule: str, ranks: int, microbatches: int
) -> None:
    """(p - 1) (F + I - W), as ZB-H1 of arXiv:2401.10241, of stages that are half as long."""
    found = timeline(order_of(schedule, ranks, microbatches))
    assert found.idle == (ranks - 1,) * ranks


@pytest.mark.parametrize("schedule", ["ZBVZeroBubble", "DualPipeV"])
def test_every_rank_does_every_pass(schedule: str) -> None:
    order = order_of(schedule, 4, 8)
    assert timeline(order).busy == (2 * 8 * 3,) * 4, "whether split or not, overlapped or not"


def test_one_of_three_microbatches_by_hand() -> None:
    first = [("F", 0, 0), ("F", 0, 1), ("B", 0, 0), ("F", 0, 2), ("B", 0, 1), ("B", 0, 2)]
    assert order_of("1F1B", 2, 3)[0] == first
    found = timeline(order_of("1F1B", 2, 3))
    assert (found.units, found.busy, found.bubble_ratio) == (12, (9, 9), 1 / 4)


def test_passes_in_turn_idle_more() -> None:
    """One microbatch after the other keeps one of two ranks waiting all the time."""
    order: list[list[Pass]] = [
        [(kind, rank, number) for number in range(4) for kind in "FB"] for rank in range(2)
    ]
    assert timeline(order).bubble_ratio == 1 / 2


def test_a_backward_pass_before_its_forward_pass_waits_for_ever() -> None:
    order = order_of("1F1B", 2, 4)
    order[1][0], order[1][1] = order[1][1], order[1][0]
    with pytest.raises(ValueError, match="rank 1 before B of stage 1, microbatch 0"):
        timeline(order)


def test_ranks_that_wait_for_each_other() -> None:
    order = order_of("GPipe", 2, 2)
    order[0] = [("F", 0, 0), ("B", 0, 0), ("F", 0, 1), ("B", 0, 1)]
    with pytest.raises(ValueError, match="rank 0 before B of stage 0, microbatch 0; rank 1 before"):
        timeline(order)


def test_a_pass_that_is_left_out_is_waited_for() -> None:
    order = order_of("ZBVZeroBubble", 2, 4)
    order[0].remove(("I", 3, 2) if ("I", 3, 2) in order[0] else ("B", 3, 2))
    with pytest.raises(ValueError, match="wait for ever"):
        timeline(order)


def test_microbatches_that_a_schedule_does_not_take() -> None:
    with pytest.raises(ValueError, match="multiple of the number of rounds"):
        order_of("Interleaved1F1B", 3, 7)
