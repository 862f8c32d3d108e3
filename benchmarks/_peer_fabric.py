"""transformers' Llama under Lightning Fabric, as one would write it."""

import os
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from benchmarks._peer_llama import endless_tokens, make_llama
from workloads.recipe import Recipe
from workloads.records import Records
from workloads.turns import Turns


def train(workload: str, config: Recipe, records: Records) -> None:
    """Train as this rank, in the way of our workload of that name."""
    num_ranks = int(os.environ["WORLD_SIZE"])
    model = make_llama(config)
    fabric = Fabric(accelerator="cpu", devices=num_ranks, strategy=strategy(workload, num_ranks))
    fabric.launch()
    llama = fabric.setup_module(model)
    optimizer = fabric.setup_optimizers(
        torch.optim.AdamW(llama.parameters(), lr=config.learning_rate, fused=True)
    )
    batches = endless_tokens(config, fabric.global_rank)
    turns = Turns(config.steps, records)
    while turns.step():
        tokens_BT = next(batches)
        loss = llama(input_ids=tokens_BT, labels=tokens_BT).loss
        fabric.backward(loss)
        fabric.clip_gradients(llama, optimizer, max_norm=config.clip, error_if_nonfinite=False)
        optimizer.step()
        optimizer.zero_grad()
        turns.note(tokens=tokens_BT.numel(), loss=loss.detach())


def strategy(workload: str, num_ranks: int) -> Strategy | str:
    """Fabric's counterpart of our workload. Its FSDPStrategy is FSDP1 and wants a GPU, so FSDP2
    comes by ModelParallelStrategy.
    """
    match workload:
        case "training.ddp":
            return DDPStrategy()
        case "training.fsdp":
            return ModelParallelStrategy(
                sharded, data_parallel_size=num_ranks, tensor_parallel_size=1
            )
        case _:
            return "auto"


def sharded(llama: Any, mesh: DeviceMesh) -> Any:
    """The Llama and each of its layers cut over the ranks, as our decoder is."""
    for layer in llama.model.layers:
        fully_shard(layer, mesh=mesh["data_parallel"])
    return fully_shard(llama, mesh=mesh["data_parallel"])
