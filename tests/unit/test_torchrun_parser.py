"""The failure report of torchrun; tests/golden has real ones."""

import pytest

from runners.parsers.torchrun import parse

REPORT = """\
Failures:
[1]:
  rank      : {other} (local_rank: 0)
  exitcode  : -15 (pid: 5)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_12:00:00
  host      : node
  rank      : {rank} (local_rank: 3)
  exitcode  : {code} (pid: 6)
"""


def test_the_root_cause_counts_not_the_survivors():
    found = parse(REPORT.format(other=0, rank=13, code=-11))
    assert (found.rank, found.exit_code) == (13, -11)


def test_the_last_report_counts():
    first, second = REPORT.format(other=0, rank=1, code=3), REPORT.format(other=1, rank=0, code=4)
    found = parse(f"{first}\nrestarting\n{second}")
    assert (found.rank, found.exit_code) == (0, 4)


@pytest.mark.parametrize("text", ["", "step 1 loss 5.5\n", "Root Cause (first observed failure):"])
def test_without_a_report_nothing_is_claimed(text: str):
    found = parse(text)
    assert (found.rank, found.exit_code, found.is_out_of_memory) == (None, None, False)


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: HIP out of memory. Tried to allocate",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 8 bytes.",
        "MemoryError",
        "[rank1]: MemoryError",
        "[default1]:[rank1]: numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1 PiB",
    ],
)
def test_lacking_memory_in_its_many_words(line: str):
    assert parse(f"step 3\n{line}\n").is_out_of_memory


@pytest.mark.parametrize(
    "line", ["caught a MemoryError, retrying", "    except MemoryError:", "memory: out of 80 GB, 3"]
)
def test_talk_about_memory_is_no_lack_of_it(line: str):
    assert not parse(line).is_out_of_memory
