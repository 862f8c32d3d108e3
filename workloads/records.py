"""What a rank writes while it is measured: JSON lines, one file per rank, schema version 1.

Dependency-free, so that a trainer may import or vendor this file. docs/records.md is the schema.

    records = Records()                       # $PACELINE_RECORDS/rank-N.jsonl, or nowhere
    records.phase("process_group_init", 0.41)
    records.step(0, 0.013, tokens=1024, loss=5.5)
    records.close()                           # writes peak memory and the closing summary

Without PACELINE_RECORDS every call is harmless, so a trainer need not know whether it is measured.
"""

import errno
import json
import math
import os
import resource
import stat
import time
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

SCHEMA_VERSION = 1
KINDS = ("env", "step", "phase", "memory", "static", "summary")
DIRECTORY_VARIABLE = "PACELINE_RECORDS"
PROFILE_VARIABLE = "PACELINE_PROFILE"


def rank_file(directory: Path, rank: int) -> Path:
    """Where rank `rank` writes."""
    return directory / f"rank-{rank}.jsonl"


def trace_file(directory: Path, rank: int) -> Path:
    """Where the profile of rank `rank` goes: a compressed Chrome trace."""
    return directory / f"trace-{rank}.json.gz"


class Records:
    """Appends this rank's records. Lines are flushed at once: a killed rank loses at most one."""

    def __init__(self, directory: str | None = None, rank: int | None = None) -> None:
        directory = directory or os.environ.get(DIRECTORY_VARIABLE)
        self.directory = Path(directory) if directory else None
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self._num_steps = 0
        self._file = None
        if self.directory:
            path = rank_file(self.directory, self.rank)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", buffering=1, encoding="utf-8")
            self.write("env", pid=os.getpid(), world_size=int(os.environ.get("WORLD_SIZE", "1")))

    def write(self, kind: str, /, **fields: Any) -> None:
        """Append one record. Raises ValueError for an unknown kind or a field of the head."""
        if kind not in KINDS:
            raise ValueError(f"record kind {kind!r} is none of {', '.join(KINDS)}")
        head = {"v": SCHEMA_VERSION, "kind": kind, "rank": self.rank, "at": time.time()}
        if taken := head.keys() & fields.keys():
            raise ValueError(f"a record has its own {min(taken)}: rename yours")
        if self._file is not None:
            self._file.write(json.dumps(head | fields) + "\n")

    def step(self, index: int, time_s: float, **fields: Any) -> None:
        """One optimizer step: `fields` may hold tokens, loss, turn and what the trainer likes."""
        self._num_steps += 1
        self.write("step", step=index, time_s=time_s, **fields)

    def phase(self, name: str, time_s: float) -> None:
        """A named stretch of time outside the steps, such as process_group_init."""
        self.write("phase", name=name, time_s=time_s)

    def memory(self, **fields: int) -> None:
        """Memory in bytes, such as peak_allocated_bytes."""
        self.write("memory", **fields)

    def close(self) -> None:
        """Write peak memory and the summary, which tells a finished rank from a lost one."""
        if self._file is not None:
            self.memory(peak_rss_bytes=peak_rss_bytes())
            self.write("summary", num_steps=self._num_steps)
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()


def peak_rss_bytes() -> int:
    """Highest resident set of this process so far (getrusage(2): ru_maxrss, KiB on Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def open_plain(path: Path) -> BinaryIO:
    """A plain file, opened to be read. Raises OSError for anything else.

    A pipe would never end, and a link may lead to what is not its writer's to show.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file", path.name)
    return os.fdopen(handle, "rb")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of one rank's file, oldest first.

    Raises ValueError, naming file and line, for a line that is not a version 1 record: half a
    record, foreign text, a value of the wrong type, an unknown kind or version; OSError where
    there is no plain file.
    """
    with TextIOWrapper(open_plain(path), "utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield _record(line)
            except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
                raise ValueError(f"{path.name}, line {number}: not a record: {error}") from error


def _record(line: str) -> dict[str, Any]:
    """A checked record. A loss may be NaN, a time may not: it would poison every median."""
    record: dict[str, Any] = json.loads(line)
    if record["v"] != SCHEMA_VERSION:
        raise ValueError(f"schema version {record['v']!r}, expected {SCHEMA_VERSION}")
    if record["kind"] not in KINDS:
        raise ValueError(f"unknown kind {record['kind']!r}")
    if record["kind"] == "step":
        record["step"] = int(record["step"])
    if record["kind"] in ("step", "phase"):
        record["time_s"] = float(record["time_s"])
        if not 0 <= record["time_s"] < math.inf:
            raise ValueError(f"time_s is {record['time_s']}")
    return record
