"""Runs a workload: python -m workloads training.ddp, or under torchrun, one process per rank.

python -m workloads --list
torchrun --nproc-per-node 2 -m workloads training.ddp --model small --steps 50
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from workloads.harness import measure

FOLDERS = ("training", "comm", "data", "micro")


def names() -> list[str]:
    """Every workload: training/ddp.py is training.ddp."""
    here = Path(__file__).parent
    files = (path for folder in FOLDERS for path in (here / folder).glob("[!_]*.py"))
    return sorted(f"{path.parent.name}.{path.stem}" for path in files)


def parser(name: str, config: type) -> argparse.ArgumentParser:
    """A Config's command line: each field is an option, `Annotated[type, help] = default`."""
    options = argparse.ArgumentParser(
        prog=f"python -m workloads {name}",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    hints = get_type_hints(config, include_extras=True)
    for field in fields(config):
        kind, text = get_args(hints[field.name])
        how: dict[str, Any] = {"type": kind}
        if get_origin(kind) is Literal:
            how = {"choices": get_args(kind)}
        elif kind is bool:
            how = {"action": argparse.BooleanOptionalAction}
        flag = "--" + field.name.replace("_", "-")
        options.add_argument(flag, default=field.default, help=text, **how)
    return options


def main(arguments: Sequence[str]) -> int:
    """List the workloads or run one. Returns the exit code: 2 for a name that is none."""
    match arguments:
        case ["--list"]:
            print(*names(), sep="\n")
        case [name, *rest] if name in names():
            workload = import_module(f"workloads.{name}")
            config = workload.Config(**vars(parser(name, workload.Config).parse_args(rest)))
            measure(workload, config)
        case _:
            print(f"{__doc__}\nworkloads: {', '.join(names())}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
