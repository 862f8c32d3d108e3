"""One side of a pair of benchmarks/peers.py, under torchrun: our workload, or a peer's trainer.

    benchmarks/_peer.py training.ddp --model small --steps 400 --trainer transformers

It has no other options: what the peers would not heed cannot be asked for.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from workloads.harness import measure
from workloads.records import Records


def main(arguments: Sequence[str]) -> None:
    """Train in the way of a workload, by the trainer that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("training.single", "training.ddp", "training.fsdp"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--trainer", choices=("ours", "transformers", "fabric"), required=True)
    chosen = parser.parse_args(arguments)
    workload = import_module(f"workloads.{chosen.workload}")
    config = workload.Config(model=chosen.model, steps=chosen.steps)
    if chosen.trainer == "ours":
        measure(workload, config)
        return
    with Records() as records:
        trainer = import_module(f"benchmarks._peer_{chosen.trainer}")
        trainer.train(chosen.workload, config, records)


if __name__ == "__main__":
    main(sys.argv[1:])
