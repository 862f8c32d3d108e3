"""Checkpoints by torch.distributed.checkpoint: an FSDP2 model with its optimizer, saved and loaded.

A step saves, trains one step and loads what was saved, so that every step begins with the same
weights and its loss is the same number to the bit. Set-up shows that training goes on after a load
as it did after the save, before anything is timed.

B batch, T sequence, V vocabulary.
"""

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import torch
import torch.distributed as c10d
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.tensor import DTensor

from workloads.corpus import tokens_at
from workloads.dist import Dist, Stopwatch
from workloads.harness import Facts
from workloads.recipe import Training
from workloads.training import fsdp

NUM_CHECKED_STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Config(fsdp.Config):
    """The command line."""

    path: Annotated[str, "folder that all ranks see; empty: a temporary one"] = ""
    save: Annotated[Literal["blocking", "async"], "whether training waits for the files"] = (
        "blocking"
    )
    fsync: Annotated[bool, "a save ends when its files are on the disk"] = True


class Saved(Stateful):
    """A sharded model, its optimizer and one batch: what is saved, and how it goes on."""

    def __init__(self, config: Config, dist: Dist) -> None:
        self.training = Training(config, dist, fsdp.parallelize)
        size = config.batch_size * (config.seq_len + 1)
        tokens = tokens_at(dist.rank * size, (dist.rank + 1) * size, self.training.vocab_size)
        self.window_BT = tokens.view(config.batch_size, -1).to(dist.device)

    def step(self) -> Tensor:
        """The loss of this rank in one optimizer step."""
        return self.training.step(self.window_BT)["loss"]

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.training.model, self.training.optimizer.adamw)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.training.model,
            self.training.optimizer.adamw,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )

    def tensors(self) -> list[Tensor]:
        """Weights and the optimizer's state, which is there after a step."""
        return [*self.training.model.parameters(), *self.training.optimizer.state]

    def num_bytes(self) -> int:
        """Size of a checkpoint: the tensors of all ranks."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors())


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """Where checkpoints go and how. `host` is a gloo group: planning concerns no device, and an
    asynchronous save must not meet training in one group.
    """

    folder: Path
    config: Config
    host: c10d.ProcessGroup

    def save(self, training: Saved, number: int) -> Future[Any] | None:
        """Save; None if that is over, or the future of its end."""
        writer = dcp.FileSystemWriter(self.place(number), sync_files=self.config.fsync)
        save = dcp.async_save if self.config.save == "async" else dcp.save
        saving = save({"training": training}, storage_writer=writer, process_group=self.host)
        return saving if isinstance(saving, Future) else None

    def load(self, training: Saved, number: int) -> None:
        """Load into the training, on all ranks together."""
        reader = dcp.FileSystemReader(self.place(number))
        dcp.load({"training": training}, storage_reader=reader, process_group=self.host)
        c10d.barrier(self.host)

    def remove(self, number: int) -> None:
        """Remove a checkpoint that all ranks have loaded."""
        if c10d.get_rank() == 0:
            shutil.rmtree(self.place(number))

    def place(self, number: int) -> Path:
        """The folder of one checkpoint."""
        return self.folder / f"{number:05}"


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps.

    Raises ValueError where not all ranks see the folder, RuntimeError where training does not
    continue as it should.
    """
    if config.path and not Path(config.path).is_dir():
        raise ValueError(f"path {config.path} is no folder; create it where all ranks see it")
    host = c10d.new_group(backend="gloo")
    with ExitStack() as stack:
        folder = shared_folder(config.path, dist.rank, host, stack)
        checkpoints = Checkpoints(folder=folder, config=config, host=host)
        training = Saved(config, dist)
        with deterministic():
            check(training, checkpoints)
        return steps(training, checkpoints, Stopwatch(dist.device), stack.pop_all())


def shared_folder(path: str, rank: int, host: c10d.ProcessGroup, stack: ExitStack) -> Path:
    """A new folder within `path`, removed with `stack`. Raises ValueError if a rank misses it."""
    names = [""]
    if rank == 0:
        holder = TemporaryDirectory(prefix="paceline-checkpoint-", dir=path or None)
        names = [stack.enter_context(holder)]
    c10d.broadcast_object_list(names, group=host)
    if blind := ranks_where(not Path(names[0]).is_dir(), host):
        raise ValueError(
            f"ranks {blind} do not see {names[0]}; give a path on storage of all nodes"
        )
    return Path(names[0])


def ranks_where(is_so: bool, host: c10d.ProcessGroup) -> list[int]:
    """The ranks that say so; every rank asks, and has the same answer."""
    said: list[Any] = [None] * c10d.get_world_size()
    c10d.all_gather_object(said, is_so, group=host)
    return [rank for rank, is_said in enumerate(said) if is_said]


def check(training: Saved, checkpoints: Checkpoints) -> None:
    """Raise RuntimeError on all ranks unless training goes on after a load as after the save, bit
    for bit.
    """
    training.step()  # from now on the optimizer has state
    state = [own(tensor).clone() for tensor in training.tensors()]
    saving = checkpoints.save(training, 0)
    losses = [training.step() for _ in range(NUM_CHECKED_STEPS)]
    if saving is not None:
        saving.result()
    checkpoints.load(training, 0)
    is_other = not all(map(torch.equal, state, map(own, training.tensors())))
    if ranks := ranks_where(is_other, checkpoints.host):
        raise RuntimeError(f"ranks {ranks} loaded other tensors than they had saved")
    again = [training.step() for _ in range(NUM_CHECKED_STEPS)]
    is_other = not torch.equal(torch.stack(losses), torch.stack(again))
    if ranks := ranks_where(is_other, checkpoints.host):
        raise RuntimeError(f"training on ranks {ranks} did not go on after a load as before")
    checkpoints.load(training, 0)
    checkpoints.remove(0)


def own(tensor: Tensor) -> Tensor:
    """This rank's shard."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@contextmanager
def deterministic() -> Iterator[None]:
    """Let kernels add in one order; on GPUs some would not."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def steps(
    training: Saved, checkpoints: Checkpoints, watch: Stopwatch, folder: ExitStack
) -> Iterator[Facts]:
    """The loop: one checkpoint for each step."""
    with folder, ThreadPoolExecutor(1) as pool:
        for number in count(1):
            yield step(training, checkpoints, number, watch, pool)
            checkpoints.remove(number)


def step(
    training: Saved,
    checkpoints: Checkpoints,
    number: int,
    watch: Stopwatch,
    pool: ThreadPoolExecutor,
) -> Facts:
    """Save, train one step, load. Bytes are those of all ranks' tensors.

    A save begins on an idle device, since the load before has waited for it, and waits for what it
    copies: the host's clock times it. A load may find the device still at work.
    """
    start_s = time.perf_counter()
    saving = checkpoints.save(training, number)
    blocked_s = time.perf_counter() - start_s
    end_s = pool.submit(end_of, saving) if saving is not None else None
    loss = training.step()
    save_s = end_s.result() - start_s if end_s is not None else blocked_s
    start = watch.mark()
    checkpoints.load(training, number)
    return {
        "loss": loss,
        "checkpoint_blocked_s": blocked_s,
        "checkpoint_save_s": save_s,
        "checkpoint_load_s": watch.since(start),
        "checkpoint_bytes_per_s": training.num_bytes() / save_s,
    }


def end_of(saving: Future[Any]) -> float:
    """When a save in the background was over, by the host's clock. Raises what it raised."""
    saving.result()
    return time.perf_counter()
