"""Run under torchrun: a workload to its end, as a rank, and how many threads it leaves behind."""

import sys
from importlib import import_module
from pathlib import Path

from workloads.__main__ import parser
from workloads.harness import measure


def num_threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def main(name: str, *options: str) -> None:
    before = num_threads()
    workload = import_module(f"workloads.{name}")
    measure(workload, workload.Config(**vars(parser(name, workload.Config).parse_args(options))))
    print(f"{num_threads() - before} threads are left", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
