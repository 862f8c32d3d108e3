"""How long from `POST /runs` until the first trial starts, in standalone mode and in production?

The repository is known and its sides are set up, as on any day but the first; the trainer needs no
torch, which would only make trials longer. The peer in the same run is what one trial's start costs
at least: a Python that imports numpy.
"""

import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from benchmarks._servers import postgresql
from tests import redis
from tests.fleet import Fleet
from tests.standalone import Standalone

NUM_RUNS = 8


def main() -> None:
    """Measure and print."""
    python_s = statistics.median(_python() for _ in range(NUM_RUNS))
    found = {"standalone": _standalone(), "production": _production()}
    print(f"from POST to the first trial, {NUM_RUNS} runs; a Python with numpy: {python_s:.2f} s")
    print("              median s   longest s   median, in Pythons")
    for mode, seconds in found.items():
        median = statistics.median(seconds)
        print(f"{mode:12s}{median:10.2f}{max(seconds):12.2f}{median / python_s:21.1f}")


def _python() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    return time.perf_counter() - start


def _standalone() -> list[float]:
    with Standalone() as service:
        service.wait(service.request())
        seconds = []
        for _ in range(NUM_RUNS):
            run = service.wait(service.request())
            first = min(datetime.fromisoformat(trial["started_at"]) for trial in run["trials"])
            seconds.append((first - datetime.fromisoformat(run["created_at"])).total_seconds())
    return seconds


def _production() -> list[float]:
    program = redis.binary()
    if program is None:
        sys.exit("Redis is missing: install the extra `dev`.")
    with postgresql() as url, Fleet(url, Path(program), reconcile_s=10) as fleet:
        fleet.start("worker", slot="0")
        fleet.start("beat")
        fleet.wait(fleet.request("slower"))
        seconds = []
        for _ in range(NUM_RUNS):
            run = fleet.wait(fleet.request("slower"))
            first = min(trial.started_at for trial in run.trials)
            seconds.append((first - run.created_at).total_seconds())
    return seconds


if __name__ == "__main__":
    main()
