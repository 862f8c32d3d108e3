"""Are our training workloads as fast as what people train with? Tokens/s against two peers.

The peers are transformers' Trainer and Lightning Fabric, both with transformers' Llama, each a
script to read: _peer_transformers.py and _peer_fabric.py. A workload that wastes time would hide a
regression in its waste, so ours must reach 0.97 of a peer's tokens/s, by the lower end of the 95 %
interval over pairs, or this exits with 1. Pairs run in lock-step: neighbours disturb both alike.

Alike are the sizes and number of weights, batch and sequence, float32, one thread a rank, the
number of ranks, fused AdamW with its options, clipping, and tokens in memory. No side has dropout
or recomputes activations, none logs within a step. What differs:

- Llama and our decoder are written differently: that, and what a trainer adds, is what we compare.
- Llama shifts the labels, so the last position of a sequence has no loss.
- The Trainer shuffles its sequences and fetches them by its DataLoader, and decays no norms.

The Trainer has no FSDP on a CPU (accelerate shards on accelerators only): fsdp has one peer.
At first use their packages are installed into .peers/, by uv from the index: _peer_packages.py.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special

from benchmarks._bench import make_bench
from benchmarks._peer_packages import packages
from runners.lockstep import measure_lockstep
from runners.pair import first_side
from service.domain import Case, Role

LEAST = 0.97
LEVEL = 0.95
NUM_RANKS = {"single": 1, "ddp": 2, "fsdp": 2}
PEERS = {"transformers": ("single", "ddp"), "fabric": ("single", "ddp", "fsdp")}  # what each can
STEPS = 1000  # more than a pair takes
WARMUP_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Tokens/s of ours over a peer's: geometric mean over pairs, and the ends of its interval."""

    mean: float
    low: float
    high: float

    @property
    def is_enough(self) -> bool:
        return self.low >= LEAST


def main() -> int:
    """Measure, print a row for each mode and peer; 1 where ours is not shown to be fast enough."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5, help="of a mode and peer, at least 2")
    parser.add_argument("--model", default="small", help="preset without experts")
    parser.add_argument("--modes", nargs="+", default=list(NUM_RANKS), choices=NUM_RANKS)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="a pair may take, start and end included"
    )
    arguments = parser.parse_args()
    if arguments.pairs < 2:
        parser.error("--pairs: an interval needs at least 2")
    print(f"mode     peer           ours/peer   95 % interval    at least {LEAST}", flush=True)
    is_enough = True
    for mode, peer in combinations(arguments.modes, arguments.peers):
        case = case_of(mode, arguments.model, arguments.seconds)
        ratio = ratio_of(effects(case, peer, arguments.pairs))
        print(row(mode, peer, ratio), flush=True)
        is_enough &= ratio.is_enough
    return 0 if is_enough else 1


def combinations(modes: Sequence[str], peers: Sequence[str]) -> list[tuple[str, str]]:
    """Modes and peers, where the peer can train so on a CPU."""
    return [(mode, peer) for mode in modes for peer in peers if mode in PEERS[peer]]


def case_of(mode: str, model: str, limit_s: float) -> Case:
    """What both sides of a pair are asked to train."""
    return Case(
        name=mode,
        script="benchmarks/_peer.py",
        arguments=(f"training.{mode}", "--model", model, "--steps", str(STEPS)),
        world_size=NUM_RANKS[mode],
        warmup_steps=WARMUP_STEPS,
        timeout_s=limit_s,
    )


def effects(case: Case, peer: str, num_pairs: int) -> list[float]:
    """Log of our tokens/s over the peer's, of each pair."""
    trainers = {Role.BASELINE: peer, Role.CANDIDATE: "ours"}
    arguments = {role: ("--trainer", trainer) for role, trainer in trainers.items()}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder), arguments, {"PYTHONPATH": str(packages())})
        for number in range(num_pairs):
            pair = measure_lockstep(bench, case, first_side(number), seed=number)
            if pair.invalid is not None:
                sys.exit(f"{case.name}, {peer}: a pair is invalid: {pair.invalid.detail}")
            found.append(pair.effects["tokens_per_s"])
    return found


def ratio_of(logs: Sequence[float]) -> Ratio:
    """The ratio of its logs over pairs, with the interval of Student's t. Raises ValueError for
    fewer than two.
    """
    if len(logs) < 2:
        raise ValueError(f"{len(logs)} pairs have no interval; measure at least 2")
    mean = float(np.mean(logs))
    quantile = float(special.stdtrit(len(logs) - 1, (1 + LEVEL) / 2))
    half_width = quantile * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    low, middle, high = (math.exp(mean + side * half_width) for side in (-1, 0, 1))
    return Ratio(mean=middle, low=low, high=high)


def row(mode: str, peer: str, ratio: Ratio) -> str:
    """One line of the table."""
    answer = "yes" if ratio.is_enough else "no"
    return f"{mode:9s}{peer:15s}{ratio.mean:9.3f}   {ratio.low:.3f} to {ratio.high:.3f}   {answer}"


if __name__ == "__main__":
    sys.exit(main())
