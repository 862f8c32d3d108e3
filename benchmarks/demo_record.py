"""How often is the demo right? Repeats `make demo` and prints the record.

python -m benchmarks.demo_record --times 10
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from runners.child import bound

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Repeat the demo; the exit code is the number of wrong verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--output", type=Path, help="append each demo's JSON here")
    arguments = parser.parse_args()
    outcomes: dict[str, Counter[str]] = {}
    effects: dict[tuple[str, str], list[float]] = {}
    minutes = []
    for number in range(arguments.times):
        record = demo(number)
        if arguments.output is not None:
            with arguments.output.open("a") as file:
                file.write(json.dumps(record) + "\n")
        minutes.append(record["minutes"])
        for name, outcome in record["outcome"].items():
            outcomes.setdefault(name, Counter())[outcome] += 1
        for name, run in record["runs"].items():
            for pair in run["pairs"]:
                for metric, effect in pair["effects"].items():
                    effects.setdefault((name, metric), []).append(effect)
        print(f"{number + 1}: {record['outcome']}, {record['minutes']:.1f} minutes", flush=True)
    report(outcomes, effects, minutes)
    return sum(counter["wrong"] for counter in outcomes.values())


def demo(number: int) -> dict[str, Any]:
    """One demo in a folder of its own."""
    folder = ROOT / ".paceline" / f"demo-{number}"
    command = [sys.executable, "-m", "examples.demo", "--json", "--folder", str(folder)]
    result = subprocess.run(
        bound(command), cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True
    )
    record: dict[str, Any] = json.loads(result.stdout)
    return record


def report(
    outcomes: dict[str, Counter[str]],
    effects: dict[tuple[str, str], list[float]],
    minutes: list[float],
) -> None:
    """Print the tables."""
    print("\nverdicts            right  inconclusive  wrong")
    for name, counter in outcomes.items():
        right, open_, wrong = (counter[word] for word in ("right", "inconclusive", "wrong"))
        print(f"{name:18s}  {right:5d}  {open_:12d}  {wrong:5d}")
    print("\npairs                                  n   mean d %   SD of d %")
    for (name, metric), values in effects.items():
        spread = np.std(values, ddof=1) if len(values) > 1 else float("nan")
        mean = 100 * np.mean(values)
        print(f"{name:18s}{metric:18s}{len(values):5d}{mean:+10.2f}{100 * spread:11.2f}")
    print(f"\nminutes per demo: median {np.median(minutes):.1f}, longest {max(minutes):.1f}")


if __name__ == "__main__":
    sys.exit(main())
