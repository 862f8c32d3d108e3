"""Files that a trial left behind: only plain ones are read, and no more of one than this much."""

import os
from pathlib import Path

from workloads.records import open_plain

# Some 300,000 step records, or a million lines of a log: no measurement needs more, and a worker
# that holds one of these in its memory stays small.
MAX_BYTES = 2**26


def read_plain(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """What stands in a plain file; of a longer one its two ends, and last a line that says so.

    A traceback stands at a log's end, its cause often at the beginning. Raises OSError where there
    is no plain file.
    """
    with open_plain(path) as file:
        left_out = os.fstat(file.fileno()).st_size - max_bytes
        if left_out <= 0:
            return file.read(max_bytes)
        start = file.read(max_bytes // 2)
        file.seek(-(max_bytes // 2), os.SEEK_END)
        note = f"\n[Paceline left out {left_out} bytes after the first {len(start)}.]\n"
        return start + file.read(max_bytes // 2) + note.encode()
