"""Counts of pipelines: each place has its own, and every change on any of them shows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.pipelining import PipelineStage

from tests.integration.signalled import SCHEDULES, SIZES, changed, counted
from workloads.models.decoder import PRESETS
from workloads.recipe import Training
from workloads.static.bubble import Pass, order_of
from workloads.static.memory import Memory
from workloads.static.signals import costs, metrics_of, signals
from workloads.static.world import fake_world
from workloads.training import hybrid, pipeline, single

pytestmark = pytest.mark.torch

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
