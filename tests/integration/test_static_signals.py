"""Counts of small models are exact: against formulas, torch's own tracker, and changes put in."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker

from service import cli
from tests.integration.signalled import SIZES, changed, counted
from workloads.dist import Dist
from workloads.models.decoder import PRESETS, Decoder
from workloads.recipe import Training
from workloads.static.__main__ import main
from workloads.static.layouts import ranked
from workloads.static.memory import Memory
from workloads.static.signals import signals
from workloads.training import ddp, expert_parallel, fsdp, hybrid, pipeline, single, tensor_parallel

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
NUM_LAYERS = PRESETS["debug"].num_layers


def num_bytes_of(model: str) -> int:
    """Bytes of all parameters in float32."""
    return 4 * sum(weight.numel() for weight in Decoder(PRESETS[model], 32).parameters())


def test_flops_are_those_of_the_formula() -> None:
    decoder, sizes = Decoder(PRESETS["debug"], 32), PRESETS["debug"]
    tokens = 2 * 32
    # The backward pass of attention computes the scores again: 14 instead of 12 L H Q T.
    attention = 14 * sizes.num_layers * sizes.dim * 32
    expected = tokens * (6 * decoder.num_matmul_params() + attention)
    norms = tokens * 6 * (2 * sizes.num_layers + 1) * sizes.dim  # they multiply element by element
    assert counted(single)["static_flops"] == expected - norms


@pytest.mark.parametrize(("model", "world_size"), [("debug", 8), ("small", 64)])
def test_fsdp_reduces_four_bytes_a_parameter(model: str, world_size: int) -> None:
    found = counted(fsdp, world_size, model=model)
    num_gathered = PRESETS[model].num_layers + 1
    assert found["static_collective_bytes@reduce_scatter"] == num_bytes_of(model)
    assert found["static_num_collectives@reduce_scatter"] == num_gathered
    assert found["static_num_collectives@all_gather"] == 2 * num_gathered - 1


def test_ddp_reduces_all_gradients_in_one_bucket() -> None:
    found = counted(ddp, 8)
    assert found["static_collective_bytes@all_reduce"] == num_bytes_of("debug")
    assert found["static_num_collectives@all_reduce"] == 1


def test_a_repetition_counts_the_same() -> None:
    config = fsdp.Config(**SIZES)
    assert signals(fsdp, config, 64) == signals(fsdp, config, 64)


def test_weights_that_are_drawn_where_they_are_held_count_alike() -> None:
    assert counted(fsdp, 8, init="held") == counted(fsdp, 8)


def test_ranks_count_alike() -> None:
    config = fsdp.Config(**SIZES)
    assert signals(fsdp, config, 8, 0).metrics == signals(fsdp, config, 8, 7).metrics


def test_parameters_that_stay_are_gathered_once() -> None:
    before, after = counted(fsdp, 8), counted(fsdp, 8, reshard=False)
    assert changed(before, after)["static_num_collectives@all_gather"] == -NUM_LAYERS
    assert after["static_peak_bytes"] > before["static_peak_bytes"]


def test_checkpointing_computes_blocks_twice_and_keeps_less() -> None:
    before, after = counted(single, seq_len=256), counted(single, seq_len=256, checkpointing=True)
    assert 0.2 < changed(before, after)["static_flops"] / before["static_flops"] < 1 / 3
    assert after["static_held_bytes@activations"] < before["static_held_bytes@activations"]


def test_tensors_share_the_products() -> None:
    assert counted(tensor_parallel, 2)["static_flops"] == counted(single)["static_flops"] // 2
    layout = {"stages": 1, "shards": 4, "tensor": 2}
    assert counted(hybrid, 8, **layout)["static_flops"] == counted(single)["static_flops"] // 2


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_peak_is_that_of_torchs_own_tracker(checkpointing: bool) -> None:
    device = torch.device("cpu")
    rank = Dist(rank=0, world_size=1, device=device, device_name="cpu", init_time_s=0.0)
    config = single.Config(**SIZES, checkpointing=checkpointing)
    training = Training(config, rank, single.parallelize)
    window_BT = next(training.batches())
    training.step(window_BT)
    with Memory(training.model, training.optimizer.state) as memory:
        training.step(window_BT)
    tracker = MemTracker()
    tracker.track_external(training.model, training.optimizer.adamw)
    with tracker:
        training.step(window_BT)
    assert memory.peak.total() == tracker.get_tracker_snapshot("peak")[device]["Total"]


OWN = """
import torch
import torch.distributed as c10d
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        {extra}
        return self.linear(x)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.vocab_size = 16
        self.embedding = nn.Embedding(16, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.out = nn.Linear(8, 16, bias=False)

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)

def build(seq_len):
    return Model()
"""


@pytest.mark.parametrize(
    ("extra", "difference"),
    [
        ("x = self.linear(x)", {"static_flops": 3 * 6 * 64 * 8 * 8}),
        (
            "c10d.all_reduce(torch.zeros(1024))",
            {
                "static_num_collectives@all_reduce": 3,
                "static_collective_bytes@all_reduce": 3 * 4096,
                "static_num_graph_breaks": 0,
            },
        ),
        ("torch._dynamo.graph_break()", {"static_num_graph_breaks": 1}),
    ],
)
def test_a_change_in_each_block_is_caught_with_its_size(
    extra: str, difference: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"own_{abs(hash(extra)) % 10**8}_{side}" for side in ("before", "after")]
    for name, line in zip(names, ("pass", extra), strict=True):
        (tmp_path / f"{name}.py").write_text(OWN.format(extra=line))
    before, after = (counted(fsdp, 8, model=f"{name}:build") for name in names)
    found = changed(before, after)
    assert {name: found.get(name, 0) for name in difference} == difference


@pytest.mark.parametrize(
    ("workload", "world_size", "options", "words"),
    [
        (expert_parallel, 2, {"model": "debug-moe"}, "experts and models that look at values"),
        (pipeline, 8, {"batch_size": 16}, "too few for 8 stages"),
        (single, 1, {"precision": "float16"}, "count bfloat16"),
        (single, 1, {"compile": True}, "leave compile out"),
        (fsdp, 4, {"replicas": 3}, "do not make 3 equal groups"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    workload: Any, world_size: int, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        counted(workload, world_size, **options)


def test_a_rank_outside_the_world_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["training.fsdp", "--world-size", "8", "--rank", "8", "--model", "debug"]
    assert main(options) == 1
    assert "rank 8 is none of a world of 8" in capsys.readouterr().err


def test_layouts_are_counted_by_a_straight_line_and_ranked() -> None:
    config = hybrid.Config(**{**SIZES, "batch_size": 1}, num_layers=8)
    found = ranked(config, 4, memory_bytes=math.inf)
    assert len(found) == 5, "4 = 1 x 4 = 2 x 2 = 4 x 1 by data, the latter two by 2 tensors, too"
    moved = [one.communicated_bytes for one in found]
    assert moved == sorted(moved)
    for one in found:
        sizes = {"replicas": one.replicas, "shards": one.shards, "tensor": one.tensor}
        options = {**sizes, "stages": 1, "batch_size": one.tensor, "num_layers": 8}
        direct = counted(hybrid, 4, **options)
        assert one.flops == direct["static_flops"]
        assert one.peak_bytes == direct["static_peak_bytes"]
    smallest = min(one.peak_bytes for one in found)
    assert ranked(config, 4, memory_bytes=smallest)[0].peak_bytes == smallest


def test_layouts_are_asked_for_on_the_command_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = "--world-size 2 --memory-bytes 1e6 --model debug --seq-len 32 --batch-size 1"
    monkeypatch.setattr(sys, "argv", ["paceline", "static", "--layouts", options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    header, *rows = capfd.readouterr().out.splitlines()
    assert header.split()[:3] == ["replicas", "shards", "tensor"]
    assert len(rows) == 3
    assert all(row.endswith("does not fit") for row in rows)


@pytest.mark.slow
def test_eight_billion_parameters_on_64_ranks() -> None:
    """The figures of torch's own trackers, taken in a process of their own."""
    sizes = {"model": "8b", "seq_len": 4096, "batch_size": 1, "precision": "bfloat16"}
    found = counted(fsdp, 64, **sizes)
    num_params = 8_030_261_248
    assert found["static_collective_bytes@reduce_scatter"] == 4 * num_params
    assert found["static_num_collectives@all_gather"] == 65
    assert found["static_flops"] == 215_220_811_202_560
    assert found["static_peak_bytes"] == pytest.approx(36.95 * 2**30, rel=1e-3)
