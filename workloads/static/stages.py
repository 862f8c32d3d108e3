"""Stages of a pipeline whose neighbours are not there to ask what they pass on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._utils import (
    InferenceMode,
    _derive_grad_metas,
    _StageBackwardMeta,
    _StageForwardMeta,
)
from torch.distributed.pipelining.schedules import _PipelineSchedule

from workloads.training import hybrid, pipeline


def ranks_of(config: Any, world_size: int) -> range:
    """One rank of each place in a pipeline; rank 0 alone of a mode whose ranks do alike."""
    num_places = 1
    if isinstance(config, hybrid.Config):  # whose outermost axis are the stages
        num_places = config.stages
    elif isinstance(config, pipeline.Config):
        num_places = world_size
    return range(0, max(world_size, 1), max(world_size // max(num_places, 1), 1))


@contextmanager
def without_neighbours() -> Iterator[None]:
    """Stages take from their own tensors what their neighbours would tell them in the first step:
    shapes of inputs, which they were given, and of gradients, which are those of their outputs.
    """
    with (
        patch.object(_PipelineSchedule, "_warmup_p2p", _warm_up),
        patch.multiple(PipelineStage, _recv_meta=_told, _send_meta=lambda *_: None),
    ):
        yield


def _warm_up(_schedule: Any, stages: Any, *_: Any) -> None:
    """Stages vote on whether shapes are known, and look at the sum of their votes."""
    for stage in stages:
        stage._inference_mode = InferenceMode.DYNAMIC


def _told(stage: Any, by: int) -> Any:
    if by < stage.stage_index:
        return _StageForwardMeta(forward_metas=stage._user_meta.inputs)
    return _StageBackwardMeta(backward_metas=_derive_grad_metas(stage._stage_meta.outputs))
