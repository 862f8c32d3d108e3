"""Records what torchrun really prints when a rank fails: `python -m tests.golden.record_torchrun`.

Run it after an update of torch, and review the difference: the parser must keep up.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "torchrun"
ENDS = {
    "ok": "pass",
    "exit_3": "os._exit(3)",
    "exception": "raise ValueError('the loss went away')",
    "sigkill": "os.kill(os.getpid(), signal.SIGKILL)",
    "sigsegv": "ctypes.string_at(0)",
    "out_of_memory_python": "bytearray(1 << 60)",
    "out_of_memory_torch": "torch.empty(1 << 50)",
    "out_of_memory_cuda": "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate')",
    "retried_memory_error": "print('caught a MemoryError, retrying', flush=True); os._exit(4)",
}
PROGRAM = """\
import ctypes, os, signal
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    {end}
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""


def record(end: str) -> str:
    """The log of two ranks of which the second ends so; machine and time taken out."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "train.py"
        program.write_text(PROGRAM.format(end=end))
        result = subprocess.run(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"),
                *("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", str(program)),
            ],
            env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    text = result.stdout.replace(folder, "/job").replace(sys.prefix, "/env")
    text = text.replace(sys.prefix.removeprefix(f"{Path.cwd()}/"), "/env")
    text = text.replace(sysconfig.get_paths()["stdlib"], "/python")
    text = re.sub(r"(\bhost\s*: ).*", r"\1node", text)
    text = re.sub(r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", "2026-01-01_12:00:00", text)
    return re.sub(r"^([WE])\d{4} [\d:.]+", r"\g<1>0101 12:00:00.000000", text, flags=re.MULTILINE)


if __name__ == "__main__":
    for name, end in ENDS.items():
        (FOLDER / f"{name}.log").write_text(record(end))
        print(name)
