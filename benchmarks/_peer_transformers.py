"""transformers' Llama under transformers' Trainer, as one would write it.

Off are those of its defaults that cost it time and change nothing here: a search for unused
weights, a sum of token counts over the ranks, a look at every loss for NaN.
"""

import os
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainerControl, TrainingArguments

from benchmarks._peer_llama import make_llama, tokens_of
from workloads.recipe import Recipe
from workloads.records import Records
from workloads.turns import Turns


class Sequences(Dataset[dict[str, Tensor]]):
    """Sequences in memory, over and over: one epoch is the whole training."""

    def __init__(self, tokens_NT: Tensor, length: int) -> None:
        self._tokens_NT, self._length = tokens_NT, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens_T = self._tokens_NT[index % len(self._tokens_NT)]
        return {"input_ids": tokens_T, "labels": tokens_T}


class TakingTurns(TrainerCallback):
    """Ends a step where the Trainer has ended it, and its training where there are no more turns.

    What the Trainer does between two steps, such as fetching the batch, counts for the later one.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._turns.step()

    def on_step_end(self, _: Any, __: Any, control: TrainerControl, **___: Any) -> None:
        control.should_training_stop = not self._turns.step()


class NotingTrainer(Trainer):
    """A Trainer that notes the loss and the tokens of each step."""

    def __init__(self, turns: Turns, **options: Any) -> None:
        super().__init__(**options)
        self._turns = turns

    def training_step(self, model: Any, inputs: Any, *arguments: Any) -> Tensor:
        tokens = inputs["input_ids"].numel()
        loss: Tensor = super().training_step(model, inputs, *arguments)
        self._turns.note(tokens=tokens, loss=loss)
        return loss


def train(workload: str, config: Recipe, records: Records) -> None:
    """Train as this rank, alone or by DistributedDataParallel. Raises ValueError for the rest."""
    if workload not in ("training.single", "training.ddp"):
        raise ValueError(f"transformers' Trainer has no {workload} on a CPU; leave it to fabric")
    num_ranks, model = int(os.environ["WORLD_SIZE"]), make_llama(config)
    arguments = TrainingArguments(
        output_dir=os.environ["TMPDIR"],
        use_cpu=True,
        ddp_backend="gloo",
        ddp_find_unused_parameters=False,
        average_tokens_across_devices=False,
        max_steps=config.steps,
        per_device_train_batch_size=config.batch_size,
        optim="adamw_torch_fused",
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=0.01,  # torch's own default, which ours has
        max_grad_norm=config.clip,
        logging_strategy="no",
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    turns = Turns(config.steps, records)
    NotingTrainer(
        turns,
        model=model,
        args=arguments,
        train_dataset=Sequences(
            tokens_of(config, num_ranks), config.steps * config.batch_size * num_ranks
        ),
        callbacks=[TakingTurns(turns)],
    ).train()
