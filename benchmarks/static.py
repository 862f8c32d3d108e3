"""How long and in how much memory the costs of an 8B model on 64 ranks are counted.

Prints seconds and peak memory of one process; exits 1 above 60 s or 3 GB.
"""

import os
import subprocess
import sys
import time

OPTIONS = "--world-size 64 --model 8b --seq-len 4096 --batch-size 1 --precision bfloat16"
MAX_S, MAX_BYTES = 60.0, 3e9


def main() -> int:
    """Count once. Returns the exit code."""
    command = [sys.executable, "-m", "workloads.static", "training.fsdp", *OPTIONS.split()]
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    took_s, num_bytes = time.perf_counter() - start, usage.ru_maxrss * 1024
    print(f"training.fsdp {OPTIONS}: {took_s:.1f} s, {num_bytes / 1e9:.2f} GB")
    return int(os.waitstatus_to_exitcode(status) != 0 or took_s > MAX_S or num_bytes > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
