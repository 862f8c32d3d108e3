"""One side of a pair of benchmarks/peers.py, under torchrun: our workload, or a peer's trainer.

benchmarks/_peer.py training.ddp --model small --steps 400 --trainer transformers
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from workloads.__main__ import parser
from workloads.harness import measure
from workloads.records import Records


def main(arguments: Sequence[str]) -> None:
    """Train in the way of a workload, by the trainer that is asked for."""
    name, *rest = arguments
    workload = import_module(f"workloads.{name}")
    options = parser(name, workload.Config)
    options.add_argument("--trainer", choices=("ours", "transformers", "fabric"), required=True)
    chosen = vars(options.parse_args(rest))
    trainer = chosen.pop("trainer")
    config = workload.Config(**chosen)
    if trainer == "ours":
        measure(workload, config)
        return
    with Records() as records:
        import_module(f"benchmarks._peer_{trainer}").train(name, config, records)


if __name__ == "__main__":
    main(sys.argv[1:])
