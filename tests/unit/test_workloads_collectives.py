# ruff: noqa: E402  (torch is an extra)
"""Sizes, groups, numbers and the timed steps of collectives; nothing communicates here."""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.unit.test_workloads_dist import GPU, FakeCuda
from workloads.collectives import Exchange, Numbers, checked, rates_of, steps, table
from workloads.comm import all_gather, all_reduce, all_to_all, barrier, overlap
from workloads.dist import Dist, Later, Stopwatch
from workloads.groups import Group, group_of, partition
from workloads.sweep import Sweep

CPU = torch.device("cpu")


def ranks(world_size: int, **facts: Any) -> Dist:
    known = {"rank": 0, "device": CPU, "device_name": "cpu", "init_time_s": 0.0}
    return Dist(world_size=world_size, **(known | facts))


def numbers(num_ranks: int, rank: int, numel: int) -> Numbers:
    group = Group(members=range(num_ranks), rank=rank)
    return Numbers(group=group, numel=numel, dtype=torch.float32, device=CPU)


def test_sizes_go_from_the_smallest_by_a_factor() -> None:
    assert Sweep().sizes() == [4096, 65536, 1048576, 16777216]
    assert Sweep(min_bytes=3, max_bytes=30, factor=3).sizes() == [3, 9, 27]
    assert Sweep(min_bytes=8, max_bytes=8).sizes() == [8]


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        (Sweep, {"min_bytes": 0}, "min_bytes is 0; give at least 1"),
        (Sweep, {"max_bytes": 100}, "max_bytes is 100; give at least 4096"),
        (Sweep, {"factor": 1}, "factor is 1; give at least 2"),
        (Sweep, {"repeats": 0}, "repeats is 0; give at least 1"),
        (barrier.Config, {"repeats": 0}, "repeats is 0; give at least 1"),
        (overlap.Config, {"num_products": 0}, "num_products is 0; give at least 1"),
        (overlap.Config, {"message_bytes": 0}, "message_bytes is 0; give at least 4"),
        (overlap.Config, {"message_bytes": 6}, "message_bytes is 6; give a multiple of 4"),
    ],
)
def test_options_that_make_no_measurement(config: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config(**options)


@pytest.mark.parametrize(
    ("workload", "world_size", "options", "words"),
    [
        (all_reduce, 1, {}, "group is world, of one rank alone"),
        (
            all_reduce,
            2,
            {"min_bytes": 6},
            "min_bytes is 6; for all_reduce of float32 .* a multiple of 4",
        ),
        (
            all_gather,
            3,
            {},
            "min_bytes is 4096; for all_gather of float32 over 3 ranks give a multiple of 12",
        ),
        (all_gather, 3, {"dtype": "float16"}, "a multiple of 6"),
        (all_reduce, 4, {"group": "node"}, "LOCAL_WORLD_SIZE is not set; launch by torchrun"),
    ],
)
def test_what_does_not_fit_the_ranks(
    workload: ModuleType, world_size: int, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        workload.run(workload.Config(**options), ranks(world_size))


def test_groups_are_all_ranks_those_of_a_node_or_one_of_each() -> None:
    assert partition("world", 4, None) == [[0, 1, 2, 3]]
    assert partition("node", 6, 3) == [[0, 1, 2], [3, 4, 5]]
    assert partition("across", 6, 3) == [[0, 3], [1, 4], [2, 5]]
    group = group_of("across", ranks(6, rank=4, local_world_size=3))
    assert (group.members, group.rank, group.root, group.is_root) == ([1, 4], 1, 1, False)


@pytest.mark.parametrize(
    ("kind", "world_size", "local", "words"),
    [
        ("across", 4, 4, "group is across, of one rank alone"),
        ("node", 4, 1, "group is node, of one rank alone"),
        ("node", 5, 2, "5 ranks are not nodes of 2 each"),
    ],
)
def test_groups_that_cannot_be(kind: Any, world_size: int, local: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        partition(kind, world_size, local)


@pytest.mark.parametrize("num_ranks", [2, 3, 100, 200, 1000, 20_000])
def test_sums_are_exact_in_bfloat16(num_ranks: int) -> None:
    numbers = table(num_ranks)
    assert numbers.min() == 0
    assert numbers.max() >= 1
    assert 0 < numbers.sum(0).max() <= 256


def test_numbers_of_a_message_go_on_where_a_part_ends() -> None:
    whole = numbers(3, 1, 1000)
    assert whole.mine().shape == (1000,)
    assert torch.equal(whole.of(1, 300, 700), whole.mine()[300:700])
    assert torch.equal(whole.total(300), sum(whole.of(rank) for rank in range(3))[300:])
    assert not torch.equal(whole.of(0), whole.of(1))
    assert (whole.blank(5) < 0).all()


@pytest.mark.parametrize("num_ranks", [2, 4, 7])
def test_uneven_parts_differ_and_add_up_for_senders_and_receivers(num_ranks: int) -> None:
    numel = 1008 * num_ranks
    sent = torch.tensor(
        [
            all_to_all.splits_of("uneven", rank, numbers(num_ranks, rank, numel))
            for rank in range(num_ranks)
        ]
    )
    assert (sent.sum(0) == numel).all()
    assert (sent.sum(1) == numel).all()
    assert all(len({*row.tolist()}) >= num_ranks - 1 for row in sent)
    own = sent.diagonal() / numel
    assert torch.allclose(own, torch.full_like(own, 1 / num_ranks), atol=1e-2)


def test_a_right_result_is_let_through_and_then_all_put_in_zeros() -> None:
    x = torch.ones(3)
    call = checked(Exchange(call=lambda: x.add_(1), given=x, result=x, expected=x + 1), "op")
    assert x.tolist() == [0, 0, 0]
    call()
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("wrong", [[1.0, 2.0, 4.0], [1.0, 2.0, float("nan")]])
def test_a_wrong_result_names_its_place(wrong: list[float]) -> None:
    exchange = Exchange(
        call=lambda: None, result=torch.tensor(wrong), expected=torch.tensor([1.0, 2.0, 3.0])
    )
    with pytest.raises(RuntimeError, match=r"rank 1: op is wrong: .* instead of 3 at place 2"):
        checked(exchange, "rank 1: op")


def test_a_step_times_every_size_after_a_meeting_without_waiting_for_the_gpu() -> None:
    cuda, order = FakeCuda(), []
    calls = {size: lambda size=size: (order.append(size), cuda.launch()) for size in (1000, 5000)}

    def rates(size: int, took: Later) -> dict[str, Later]:
        return rates_of("all_reduce", 4, size, took)

    noted = next(steps(calls, rates, 2, Stopwatch(GPU, cuda), lambda: order.append("meet")))
    assert order == ["meet", 1000, 1000, "meet", 5000, 5000]
    assert cuda.num_synchronized == 0
    cuda.synchronize()
    assert {name: value.item() for name, value in noted.items()} == pytest.approx(
        {
            "collective_time_s@1000": 0.005,
            "algbw_bytes_per_s@1000": 200_000,
            "busbw_bytes_per_s@1000": 300_000,
            "collective_time_s@5000": 0.005,
            "algbw_bytes_per_s@5000": 1_000_000,
            "busbw_bytes_per_s@5000": 1_500_000,
        }
    )


def test_overlap_starts_to_communicate_and_waits_last_all_without_the_host() -> None:
    cuda, order = FakeCuda(), []

    def compute() -> None:
        order.append("compute")
        cuda.launch()

    def communicate() -> Any:
        order.append("start")
        return SimpleNamespace(wait=lambda: (order.append("wait"), cuda.launch()))

    noted = next(overlap.steps(compute, communicate, Stopwatch(GPU, cuda), lambda: None))
    assert order == ["compute", "start", "wait", "start", "compute", "wait"]
    assert cuda.num_synchronized == 0
    cuda.synchronize()
    assert noted["overlapped_time_s"].item() == pytest.approx(0.010)
    assert noted["overlap_ratio"].item() == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("times_s", "ratio"), [((4, 1, 4), 1.0), ((1, 4, 5), 0.0), ((2, 4, 5), 0.5), ((1, 1, 3), -1.0)]
)
def test_overlap_ratio_is_the_hidden_share_of_the_shorter(
    times_s: tuple[float, float, float], ratio: float
) -> None:
    assert overlap.overlap_ratio(*times_s) == ratio
