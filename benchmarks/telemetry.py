"""What does telemetry cost? CPU time of a sampler at work on a trial of some ranks, which sleep.

It runs on the node that measures, so what it takes is taken from both sides alike.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil

from runners.telemetry.gpu import Gpus
from runners.telemetry.host import Host
from runners.telemetry.sampler import Sampler

NUM_RANKS = 8
WALL_S = 20.0
_AGENT = f"""
import subprocess, sys
rank = [sys.executable, "-c", "import sys; sys.stdin.read()"]
ranks = [subprocess.Popen(rank) for _ in range({NUM_RANKS})]
for rank in ranks:
    rank.wait()
"""


def main() -> None:
    """Measure and print."""
    trial = subprocess.Popen([sys.executable, "-c", _AGENT], stdin=subprocess.PIPE)
    try:
        time.sleep(2.0)  # until the ranks are there
        num_processes = len(psutil.pids())
        num_samples, cpu_s = sampled(trial.pid)
    finally:
        trial.communicate()
    print(f"{num_samples} samples of {NUM_RANKS} ranks among {num_processes} processes")
    print(f"per sample      {cpu_s / num_samples * 1e3:8.2f} ms of CPU")
    print(f"of one CPU      {cpu_s / WALL_S:8.3%}")
    print(f"of this node    {cpu_s / WALL_S / (os.cpu_count() or 1):8.3%}")


def sampled(root: int) -> tuple[int, float]:
    """Number of samples and the CPU time of this process, which does nothing but sample."""
    with tempfile.TemporaryDirectory() as folder:
        started_s = time.process_time()
        sampler = Sampler(Path(folder) / "telemetry.jsonl", Host(root), partial(Gpus, None))
        time.sleep(WALL_S)
        sampler.stop()
        return len(sampler.samples), time.process_time() - started_s


if __name__ == "__main__":
    main()
