"""Training workloads refuse what does not divide, with the numbers, before they communicate."""

from types import ModuleType

import pytest
import torch

from workloads.dist import Dist
from workloads.recipe import make_decoder
from workloads.training import (
    context_parallel,
    expert_parallel,
    fsdp,
    pipeline,
    single,
    tensor_parallel,
)


def ranks(world_size: int) -> Dist:
    return Dist(
        rank=0,
        world_size=world_size,
        device=torch.device("cpu"),
        device_name="cpu",
        init_time_s=0.0,
    )


@pytest.mark.parametrize(
    ("workload", "world_size", "options", "words"),
    [
        (single, 2, {}, "one rank, not 2"),
        (fsdp, 4, {"replicas": 3}, "4 ranks do not make 3 equal groups"),
        (fsdp, 4, {"replicas": 0}, "4 ranks do not make 0 equal groups"),
        (tensor_parallel, 2, {"model": "debug-moe"}, "debug-moe has experts"),
        (tensor_parallel, 4, {}, "2 key and value heads do not go to 4 ranks"),
        (expert_parallel, 3, {"model": "debug-moe"}, "8 experts do not go to 3 ranks"),
        (pipeline, 4, {}, "2 blocks, too few for 4 stages"),
        (pipeline, 2, {"schedule": "DualPipeV"}, "2 blocks, too few for 4 stages"),
        (pipeline, 2, {"microbatches": 3}, "16 has no 3 equal microbatches"),
        (context_parallel, 3, {"seq_len": 32}, "32 has no 3 equal parts"),
        (context_parallel, 4, {"exchange": "heads"}, "2 key and value heads do not go to 4 ranks"),
    ],
)
def test_what_does_not_divide(
    workload: ModuleType, world_size: int, options: dict[str, object], words: str
) -> None:
    config = workload.Config(**{"model": "debug", **options})
    with pytest.raises(ValueError, match=words):
        workload.run(config, ranks(world_size))


def test_a_rank_has_its_part_of_a_sequence_and_the_next_token() -> None:
    config = context_parallel.Config(seq_len=8)
    window = torch.arange(9)[None]
    parts = [
        context_parallel.share(config, Dist(**{**vars(ranks(4)), "rank": rank}), window)[0].tolist()
        for rank in range(4)
    ]
    assert parts == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8]]


@pytest.mark.parametrize(
    ("schedule", "rank", "indices"),
    [("1F1B", 1, [1]), ("Interleaved1F1B", 1, [1, 3]), ("ZBVZeroBubble", 0, [0, 3])],
)
def test_the_stages_of_a_rank(schedule: str, rank: int, indices: list[int]) -> None:
    config = pipeline.Config(model="small", schedule=schedule)
    dist = Dist(**{**vars(ranks(2)), "rank": rank})
    model = pipeline.parallelize(make_decoder(config, dist), config, dist)
    assert [stage.index for stage in model] == indices
    assert [list(stage.blocks) for stage in model] == (
        [[str(index)] for index in indices] if len(indices) == 2 else [["2", "3"]]
    )


def test_weights_are_the_same_on_every_rank() -> None:
    config = single.Config(model="debug")
    first, second = (make_decoder(config, ranks(2)).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
