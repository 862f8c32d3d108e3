"""Counts of small models are exact: against formulas, torch's own tracker, and changes put in."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.pipelining import PipelineStage

from service import cli
from workloads.dist import Dist
from workloads.models.decoder import PRESETS, Decoder
from workloads.recipe import Training
from workloads.static.__main__ import main
from workloads.static.bubble import Pass, order_of
from workloads.static.layouts import ranked
from workloads.static.memory import Memory
from workloads.static.signals import costs, costs_of, metrics_of, signals
from workloads.static.stages import ranks_of
from workloads.static.world import fake_world
from workloads.training import ddp, expert_parallel, fsdp, hybrid, pipeline, single, tensor_parallel

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
SIZES = {"model": "debug", "seq_len": 32, "batch_size": 2}
NUM_LAYERS = PRESETS["debug"].num_layers
SCHEDULES = get_args(get_args(get_type_hints(pipeline.Config, include_extras=True)["schedule"])[0])


def num_bytes_of(model: str) -> int:
    """Bytes of all parameters in float32."""
    return 4 * sum(weight.numel() for weight in Decoder(PRESETS[model], 32).parameters())


def counted(workload: Any, world_size: int = 1, **options: Any) -> dict[str, float]:
    return signals(workload, workload.Config(**{**SIZES, **options}), world_size).metrics


def changed(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each count differs; memory is left out."""
    return {
        name: after.get(name, 0) - before.get(name, 0)
        for name in sorted(before.keys() | after.keys())
        if after.get(name, 0) != before.get(name, 0)
        and not name.endswith("_bytes")
        and "held" not in name
    }


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


PIPE = {"batch_size": 8, "num_layers": 4}


def test_stages_together_do_what_one_rank_does_alone() -> None:
    found, alone = counted(pipeline, 2, **PIPE), counted(single, **PIPE)
    assert found["static_flops"] == alone["static_flops"]
    assert found["static_flops@rank_0"] + found["static_flops@rank_1"] == found["static_flops"]
    # Eight microbatches forward, and their gradients back.
    assert found["static_num_collectives@send"] == found["static_num_collectives@recv"] == 16
    passed = 4 * 8 * 32 * PRESETS["debug"].dim
    assert found["static_collective_bytes@send"] == 2 * passed


def test_a_schedule_that_idles_less_is_seen() -> None:
    assert counted(pipeline, 2, **PIPE)["static_bubble_ratio"] == pytest.approx(1 / 9)
    shorter = counted(pipeline, 2, **PIPE, schedule="Interleaved1F1B")
    assert shorter["static_bubble_ratio"] == pytest.approx(1 / 17)
    assert counted(hybrid, 8, stages=1, shards=8, tensor=1)["static_bubble_ratio"] == 0
    assert "static_bubble_ratio" not in counted(single)


def test_a_rank_of_a_pipeline_may_be_counted_alone() -> None:
    config = pipeline.Config(**{**SIZES, **PIPE})
    alone, both = signals(pipeline, config, 2, 1).metrics, signals(pipeline, config, 2).metrics
    assert alone["static_flops"] == both["static_flops@rank_1"]
    assert alone["static_peak_bytes"] == both["static_peak_bytes@rank_1"]
    assert "static_flops@rank_1" not in alone


def test_one_forward_one_backward_keeps_fewer_microbatches() -> None:
    """As many as there are ranks from here to the end, where GPipe keeps all eight."""

    def kept(schedule: str, rank: int) -> int:
        config = pipeline.Config(**{**SIZES, **PIPE, "schedule": schedule})
        return costs(pipeline, config, 2, rank).held_bytes["activations"]

    assert kept("1F1B", 0) < 0.4 * kept("GPipe", 0)
    assert kept("1F1B", 1) < 0.3 * kept("GPipe", 1)


def test_what_comes_from_other_stages_is_held_from_the_first_step_on() -> None:
    config = pipeline.Config(**{**SIZES, **PIPE, "schedule": "GPipe"})
    with fake_world(2, 1) as dist:
        training = Training(config, dist, pipeline.parallelize)
        with Memory(training.model) as memory:
            training.step(next(training.batches()))
            memory.start_over(training.optimizer.state)
            assert memory.peak["activations"] >= 4 * 8 * 32 * PRESETS["debug"].dim


def test_a_change_on_a_lesser_stage_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rank does less than the last, which has the logits."""
    before = {
        rank: costs(pipeline, pipeline.Config(**{**SIZES, **PIPE}), 2, rank) for rank in (0, 1)
    }
    forward = pipeline.Stage.forward

    def with_a_product_more(stage: pipeline.Stage, x: torch.Tensor) -> torch.Tensor:
        if stage.index == 0:
            torch.zeros(8, 8) @ torch.zeros(8, 8)
        return forward(stage, x)

    monkeypatch.setattr(pipeline.Stage, "forward", with_a_product_more)
    after = {
        rank: costs(pipeline, pipeline.Config(**{**SIZES, **PIPE}), 2, rank) for rank in (0, 1)
    }
    assert before[0].flops < before[1].flops
    assert changed(metrics_of(before), metrics_of(after)) == {
        "static_flops": 8 * 2 * 8**3,
        "static_flops@rank_0": 8 * 2 * 8**3,
        "static_num_operators": 8 * 3,
    }


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_bubble_is_that_of_the_passes_that_run(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = pipeline.Config(**{**SIZES, "batch_size": 8, "num_layers": 8}, schedule=schedule)
    ran = [_ran(config, 4, rank, monkeypatch) for rank in range(4)]
    assert ran == order_of(schedule, 4, config.microbatches)


def _ran(
    config: pipeline.Config, world_size: int, rank: int, monkeypatch: pytest.MonkeyPatch
) -> list[Pass]:
    """The passes of a rank's step, in the order in which torch runs them."""
    passes: list[Pass] = []

    def noted(name: str, kind_of: Callable[..., str]) -> Any:
        method = getattr(PipelineStage, name)

        def call(stage: PipelineStage, number: int, *args: Any, **options: Any) -> Any:
            passes.append((kind_of(**options), stage.stage_index, number))
            return method(stage, number, *args, **options)

        return call

    with monkeypatch.context() as patch, fake_world(world_size, rank) as dist:
        training = Training(config, dist, pipeline.parallelize)
        for name, kind_of in {
            "forward_one_chunk": lambda **_: "F",
            "backward_one_chunk": lambda full_backward=True, **_: "B" if full_backward else "I",
            "backward_weight_one_chunk": lambda **_: "W",
        }.items():
            patch.setattr(PipelineStage, name, noted(name, kind_of))
        training.step(next(training.batches()))
    return passes


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


@pytest.mark.parametrize(
    ("workload", "world_size", "options"),
    [
        (fsdp, 2, {}),
        (tensor_parallel, 2, {}),
        *((pipeline, 2, {"batch_size": 8, "schedule": schedule}) for schedule in SCHEDULES),
        (hybrid, 4, {"batch_size": 8, "shards": 2, "tensor": 1, "precision": "bfloat16"}),
        (hybrid, 4, {"batch_size": 8, "shards": 1, "schedule": "ZBVZeroBubble"}),
    ],
)
def test_a_step_that_really_communicates_counts_the_same(
    workload: Any, world_size: int, options: dict[str, Any]
) -> None:
    config = workload.Config(**{"num_layers": 4, **SIZES, **options})
    given = [f"--{name.replace('_', '-')}={value}" for name, value in asdict(config).items()]
    given = [option for option in given if not option.endswith(("=True", "=False"))]
    by_rank = really_counted(workload, world_size, given)
    found = costs_of(workload, config, world_size, ranks_of(config, world_size))
    for rank, cost in found.items():
        assert by_rank[rank] == [cost.flops, cost.num_collectives, cost.collective_bytes]


def really_counted(workload: Any, world_size: int, options: list[str]) -> list[Any]:
    """FLOPs, collectives and their bytes of each rank, from processes that communicate."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={world_size}", "tests/integration/really_counted.py"]
    command += [workload.__name__.rpartition(".")[2], *options]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, timeout=240
    )
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    assert b"mismatch" not in ended.stderr, "stages pass on what they were told to"
    found: list[Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


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
