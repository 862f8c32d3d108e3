"""What do lock-step pairs buy? Slowdowns of 0, 2, 5 and 10 % in a real two-rank training.

Lock-step against ABBA, both judged by our engine, against what most teams do: one launch before
and one after, flagged where it is slower by more than δ. The before/after column reads each ABBA
pair by itself, so it costs nothing more. δ is 4 %, as in the demo.
"""

import argparse
import math
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._bench import make_bench
from runners.lockstep import measure_lockstep
from runners.pair import first_side, measure_abba
from service.domain import Arrangement, Case, Policy, Role, Rule, Verdict
from service.stats.compare import compare
from service.stats.pairs import STEP_TIME, PairEffects
from service.usecases.recording import PairResult

DELTA = 0.04
POLICY = Policy(metrics={"step_time_s": Rule(min_effect=DELTA, gate=True)})
ORDERINGS = 200


@dataclass(frozen=True)
class Cell:
    """Pairs of one arrangement and one injected slowdown."""

    effects: list[float]
    seconds: float


def main() -> None:
    """Measure all cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.0, 0.02, 0.05, 0.10])
    arguments = parser.parse_args()
    print("arrangement   injected   mean d %   SD of d %   regression   before/after   s per pair")
    for arrangement in Arrangement:
        for size in arguments.sizes:
            cell = measure(arrangement, size, arguments.pairs)
            print(row(arrangement, size, cell), flush=True)


def row(arrangement: Arrangement, size: float, cell: Cell) -> str:
    """One line of the table."""
    flagged = np.mean([effect > math.log1p(DELTA) for effect in cell.effects])
    alone = f"{flagged:12.0%}" if arrangement is Arrangement.ABBA else " " * 12
    return (
        f"{arrangement:12s}{size:10.0%}{100 * np.mean(cell.effects):+11.2f}"
        f"{100 * np.std(cell.effects, ddof=1):12.2f}{detection(cell.effects):13.0%}"
        f"   {alone}{cell.seconds / len(cell.effects):13.1f}"
    )


def detection(effects: list[float]) -> float:
    """Share of random orders of the pairs in which the engine ends in `regression`."""
    rng = random.Random(1)
    hits = 0
    for _ in range(ORDERINGS):
        order = rng.sample(effects, len(effects))
        pairs = [PairEffects(str(i), {"step_time_s": d}) for i, d in enumerate(order)]
        hits += compare(pairs, POLICY)[0].verdict is Verdict.REGRESSION
    return hits / ORDERINGS


def measure(arrangement: Arrangement, size: float, num_pairs: int) -> Cell:
    """Pairs of one cell."""
    slow = {Role.BASELINE: 0.0, Role.CANDIDATE: size}
    arguments = {role: ("--slow-by", str(by)) for role, by in slow.items()}
    case = Case(
        name="injected",
        script="benchmarks/_injected.py",
        arguments=("--steps", "260", "--model", "debug"),
        world_size=2,
        warmup_steps=12,
    )
    start = time.monotonic()
    effects = []
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder), arguments)
        for number in range(num_pairs):
            first = first_side(number)
            if arrangement is Arrangement.LOCKSTEP:
                pair = measure_lockstep(bench, case, first, seed=number)
            else:
                pair = measure_abba(bench, case, first)
            effects.append(effect_of(pair))
    return Cell(effects, time.monotonic() - start)


def effect_of(pair: PairResult) -> float:
    """d of the step time."""
    if pair.invalid is not None:
        raise SystemExit(f"a pair is invalid: {pair.invalid.detail}")
    return pair.effects[STEP_TIME]


if __name__ == "__main__":
    main()
