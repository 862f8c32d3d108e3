"""Training workloads refuse what does not divide, with the numbers, before they communicate."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from workloads.dist import Dist
from workloads.recipe import make_decoder
from workloads.training import (
    context_parallel,
    expert_parallel,
    fsdp,
    hybrid,
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
        (expert_parallel, 2, {}, "debug has no experts"),
        (hybrid, 4, {}, "stages x replicas x shards x tensor are 2 x 1 x 2 x 2, .* not 4 ranks"),
        (
            hybrid,
            4,
            {"stages": 1, "shards": 1, "tensor": 4},
            "2 key and value heads do not go to 4",
        ),
        (hybrid, 4, {"stages": 4, "shards": 1, "tensor": 1}, "too few for 4 stages"),
        (single, 1, {"accumulate": 3}, "4 has no 3 equal parts"),
        (single, 1, {"accumulate": 0}, "4 has no 0 equal parts"),
        (single, 1, {"num_layers": -1}, "num_layers is -1; give 0"),
        (single, 1, {"model": "huge"}, "'huge' is no preset; there are debug, small"),
        (pipeline, 2, {"accumulate": 2}, "set those, not accumulate"),
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
        context_parallel.share(config, replace(ranks(4), rank=rank), window)[0].tolist()
        for rank in range(4)
    ]
    assert parts == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8]]


@pytest.mark.parametrize(
    ("schedule", "rank", "indices"),
    [("1F1B", 1, [1]), ("Interleaved1F1B", 1, [1, 3]), ("ZBVZeroBubble", 0, [0, 3])],
)
def test_the_stages_of_a_rank(schedule: str, rank: int, indices: list[int]) -> None:
    config = pipeline.Config(model="small", schedule=schedule)
    dist = ranks(2)
    pipe = pipeline.Pipe(rank=rank, size=2, group=None)
    model = pipeline.stages_of(make_decoder(config, dist), config, pipe)
    assert [stage.index for stage in model] == indices
    assert [list(stage.blocks) for stage in model] == (
        [[str(index)] for index in indices] if len(indices) == 2 else [["2", "3"]]
    )


def test_weights_are_the_same_on_every_rank() -> None:
    config = single.Config(model="debug")
    first, second = (make_decoder(config, ranks(2)).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


OWN = """
from torch import nn

def build(seq_len):
    model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
    model.vocab_size = 16
    return model

def without_vocabulary(seq_len):
    return nn.Linear(1, 1)
"""


def test_a_project_brings_its_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_model.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    steps = single.run(single.Config(model="own_model:build", learning_rate=0.1), ranks(1))
    first, *_, last = (next(steps) for _ in range(20))
    assert last["loss"] < first["loss"]
    assert first["tokens"] == 4 * 128
    assert "model_flops" not in first, "its sizes are not known"
    with pytest.raises(ValueError, match="own_model:without_vocabulary makes has no vocab_size"):
        single.run(single.Config(model="own_model:without_vocabulary"), ranks(1))
