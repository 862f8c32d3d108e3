"""Trains a small language model on bytes, data-parallel on the CPU.

torchrun --nproc-per-node 2 train.py --steps 400
"""

import argparse
import math
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from data import batches, corpus
from model import ModelConfig, TinyLM
from paceline_records import Records
from paceline_turns import Turns
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LambdaLR

WARMUP_STEPS = 20
MAX_GRAD_NORM = 1.0
PRINT_EVERY = 20


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a small language model on bytes.")
    parser.add_argument("--steps", type=int, default=400, help="optimizer steps")
    parser.add_argument("--batch-size", type=int, default=4, help="sequences per rank")
    parser.add_argument("--learning-rate", type=float, default=5e-3, help="highest of the schedule")
    parser.add_argument("--seed", type=int, default=1, help="of weights and batches")
    return parser.parse_args()


def cosine(step: int, num_steps: int) -> float:
    """Share of the learning rate: a linear warm-up, then half a cosine down to a tenth."""
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / max(1, num_steps - WARMUP_STEPS)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))


def train(args: argparse.Namespace, records: Records) -> None:
    """Set up and train; rank 0 prints the loss."""
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    config = ModelConfig()
    model = DistributedDataParallel(TinyLM(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, fused=True)
    schedule = LambdaLR(optimizer, lambda step: cosine(step, args.steps))
    data = batches(corpus(), args.batch_size, config.seq_len, seed=args.seed + rank)

    step = 0
    turns = Turns(args.steps, records)
    while turns.step():
        window_BT = next(data)
        tokens_BT, targets_BT = window_BT[:, :-1], window_BT[:, 1:]
        logits_BTV = model(tokens_BT)
        loss = cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())
        loss.backward()
        clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

        turns.note(tokens=tokens_BT.numel(), loss=loss.item())
        if rank == 0 and step % PRINT_EVERY == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}", flush=True)
        step += 1


def main() -> None:
    """Join the process group and train."""
    args = parse_args()
    torch.set_num_threads(1)
    with Records() as records:
        start = time.perf_counter()
        dist.init_process_group("gloo", timeout=timedelta(minutes=2))
        records.phase("process_group_init", time.perf_counter() - start)
        train(args, records)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
