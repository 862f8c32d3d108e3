"""torchrun's failure report: which rank failed first, and how.

torchrun itself exits with 1 whatever happened; the report at the end of its log names each rank's
exit code, negative for a signal. Survivors are listed too: they were ended with SIGTERM, or with
an error of their own when a peer's connection closed, so the root cause is what torchrun lists as
"first observed failure".
"""

import re
from dataclasses import dataclass

_REPORT = re.compile(
    r"Root Cause \(first observed failure\):.*?"
    r"rank\s*:\s*(?P<rank>\d+).*?exitcode\s*:\s*(?P<code>-?\d+)",
    re.DOTALL,
)
_OUT_OF_MEMORY = re.compile(
    r"torch(?:\.cuda)?\.OutOfMemoryError"
    r"|(?:CUDA|HIP|XPU) out of memory"
    r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
    r"|^(?:\[\w+\]:\s*)*[\w.]*MemoryError\b",  # Python's, numpy's
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """The rank that failed first, its exit code, and whether its log speaks of lacking memory."""

    rank: int | None
    exit_code: int | None
    is_out_of_memory: bool


def parse(text: str) -> Parsed:
    """Root cause in a torchrun log; `rank` None where it holds no report."""
    reports = list(_REPORT.finditer(text))
    is_out_of_memory = bool(_OUT_OF_MEMORY.search(text))
    if not reports:
        return Parsed(rank=None, exit_code=None, is_out_of_memory=is_out_of_memory)
    last = reports[-1]
    return Parsed(
        rank=int(last["rank"]), exit_code=int(last["code"]), is_out_of_memory=is_out_of_memory
    )
