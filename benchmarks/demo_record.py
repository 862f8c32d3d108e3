"""How often is the demo right? Repeats `make demo` and prints the record.

python -m benchmarks.demo_record --times 10
python -m benchmarks.demo_record --read .paceline/demo .paceline/demo-*   # of demos made before
"""

import argparse
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.encoders import jsonable_encoder

from examples.demo import EXPECTED, judged
from examples.tinylm.make_repository import git
from runners.child import bound
from service.db import reading
from service.db.session import make_engine, make_sessions

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Demo:
    """One demo: its runs by the candidate's branch."""

    runs: dict[str, dict[str, Any]]
    minutes: float

    def outcome(self, name: str) -> str:
        """Whether a verdict is right."""
        return judged(self.runs[name], EXPECTED[name])


def main() -> int:
    """Repeat or read demos; the exit code is the number of wrong verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--read", type=Path, nargs="+", help="folders of demos, instead")
    arguments = parser.parse_args()
    folders = arguments.read or [
        ROOT / ".paceline" / f"demo-{number}" for number in range(arguments.times)
    ]
    demos = []
    for folder in folders:
        if not arguments.read:
            repeat(folder)
        demos.append(read(folder))
        outcomes = {name: demos[-1].outcome(name) for name in EXPECTED}
        print(f"{folder.name}: {outcomes}, {demos[-1].minutes:.1f} minutes", flush=True)
    report(demos)
    return sum(demo.outcome(name) == "wrong" for demo in demos for name in EXPECTED)


def repeat(folder: Path) -> None:
    """One demo in a folder of its own."""
    command = [sys.executable, "-m", "examples.demo", "--folder", str(folder)]
    subprocess.run(bound(command), cwd=ROOT, check=False, stdout=subprocess.DEVNULL)


def read(folder: Path) -> Demo:
    """What a demo left in its folder."""
    names = {git(folder / "tinylm", "rev-parse", name).strip(): name for name in EXPECTED}
    engine = make_engine(f"sqlite:///{folder.absolute() / 'paceline.db'}")
    with make_sessions(engine)() as session:
        found = [reading.run_detail(session, run.id) for run in reading.run_list(session).items]
    engine.dispose()
    ends = [run.finished_at for run in found if run.finished_at is not None]
    span = max(ends) - min(run.created_at for run in found)
    runs = {names[run.candidate.requested]: jsonable_encoder(run) for run in found}
    return Demo(runs, span.total_seconds() / 60)


def report(demos: list[Demo]) -> None:
    """Print the tables."""
    print("\nverdicts            right  inconclusive  wrong  pairs until settled")
    for name in EXPECTED:
        counter = Counter(demo.outcome(name) for demo in demos)
        right, open_, wrong = (counter[word] for word in ("right", "inconclusive", "wrong"))
        pairs = sorted(len(demo.runs[name]["pairs"]) for demo in demos)
        print(f"{name:18s}  {right:5d}  {open_:12d}  {wrong:5d}  {pairs}")
    effects: dict[tuple[str, str], list[float]] = {}
    for demo in demos:
        for name, run in demo.runs.items():
            for pair in run["pairs"]:
                for metric, effect in pair["effects"].items():
                    effects.setdefault((name, metric), []).append(effect)
    print("\npairs                                  n   mean d %   SD of d %")
    for (name, metric), values in sorted(effects.items()):
        spread = np.std(values, ddof=1) if len(values) > 1 else float("nan")
        mean = 100 * np.mean(values)
        print(f"{name:18s}{metric:18s}{len(values):5d}{mean:+10.2f}{100 * spread:11.2f}")
    minutes = [demo.minutes for demo in demos]
    print(f"\nminutes per demo: median {np.median(minutes):.1f}, longest {max(minutes):.1f}")


if __name__ == "__main__":
    sys.exit(main())
