"""Counts what one step of a training workload costs: python -m workloads.static WORKLOAD ...

python -m workloads.static training.fsdp --world-size 64 --model 8b --seq-len 4096 --batch-size 1

One process, no device, no cluster. The options behind --world-size and --rank are the workload's.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from workloads.__main__ import names, parser
from workloads.records import Records
from workloads.static.signals import Signals, signals


def main(arguments: Sequence[str]) -> int:
    """Count, record and print. Returns the exit code: 1 for what cannot be counted."""
    options = argparse.ArgumentParser(
        prog="python -m workloads.static",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    trained = [name for name in names() if name.startswith("training.")]
    options.add_argument("workload", choices=trained)
    options.add_argument("--world-size", type=int, default=1, help="ranks of the job")
    options.add_argument(
        "--rank", type=int, help="the rank to count; else 0, or one of each place in a pipeline"
    )
    own, rest = options.parse_known_args(arguments)
    workload: Any = import_module(f"workloads.{own.workload}")
    config = workload.Config(**vars(parser(own.workload, workload.Config).parse_args(rest)))
    try:
        found = signals(workload, config, own.world_size, own.rank)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with Records(rank=0) as records:
        records.write("env", workload=own.workload, torch=found.torch)
        records.write("static", metrics=found.metrics, operators=found.operators)
    print(_table(found))
    return 0


def _table(found: Signals) -> str:
    width = max(map(len, found.metrics))
    return "\n".join(f"{name:{width}} {value:>22,}" for name, value in found.metrics.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
