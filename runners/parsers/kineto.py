"""Kineto's Chrome traces, as torch.profiler exports them, from torch 1.8 on.

Older ones give integer microseconds since the epoch; newer ones fractions of them since a base of
their own. Names of categories changed too (`Operator` became `cpu_op`). A trace is read as JSON:
torch's own tables of it take a hundred times as long.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from runners.plainfile import read_plain
from service.stats.trace import Event, Kind, Trace

Parsed = Trace

MAX_BYTES = 2**27  # of JSON; some 300,000 events with their shapes
_MAX_NAME = 200  # a C++ template's name may be longer than anybody reads
_MAX_MICROSECONDS = 2**53  # the year 2255; a float counts no further
_HOST = {"cpu_op", "operator", "user_annotation"}
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
_RUNTIME = {"cuda_runtime", "cuda_driver", "runtime"}
_ISSUES = ("c10d::", "c10d_functional::", "_c10d_functional::", "record_param_comms", "nccl:")
_TOO_LARGE = f"it holds more than {MAX_BYTES} bytes: profile fewer steps"


def read(path: Path) -> Trace:
    """The trace in a plain file, compressed or not.

    Raises ValueError, naming the file, for what is none or is too large; OSError where there is no
    plain file.
    """
    content = read_plain(path, MAX_BYTES)
    try:
        return parse(_unpacked(content))
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} is no trace: {error}") from error


def _unpacked(content: bytes) -> str:
    if content.startswith(b"\x1f\x8b") and len(content) <= MAX_BYTES:
        with gzip.GzipFile(fileobj=BytesIO(content)) as file:
            content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(_TOO_LARGE)
    return content.decode(errors="replace")


def parse(text: str) -> Trace:
    """The events of a trace that tell where a step's time went. Raises ValueError for no trace."""
    try:
        trace = json.loads(text)
        info = trace.get("distributedInfo", {})
        events = sorted(_events(trace["traceEvents"]), key=lambda event: event.start_ns)
        return Trace(
            rank=None if info.get("rank") is None else int(info["rank"]),
            events=tuple(events),
            software=_software(trace, info),
        )
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"not what torch.profiler writes: {error!r}") from error


def _software(trace: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, str]:
    known = {"nccl": info.get("nccl_version"), "cuda_driver": trace.get("cuda_driver_version")}
    return {name: str(value)[:_MAX_NAME] for name, value in known.items() if value is not None}


def _events(entries: list[Mapping[str, Any]]) -> Iterator[Event]:
    for entry in entries:
        if entry.get("ph") != "X" or not isinstance(entry.get("cat"), str):
            continue
        kind = _kind(entry["cat"].lower(), entry["name"])
        if kind is not None:
            yield _event(kind, entry)


def _kind(category: str, name: str) -> Kind | None:
    """What an event is; None for what the breakdown does not use, such as other annotations."""
    if category in _DEVICE:
        return Kind.COLLECTIVE if name.startswith("nccl") else Kind.KERNEL
    if category in _RUNTIME:
        return Kind.RUNTIME
    if category not in _HOST:
        return None
    if name.startswith("ProfilerStep"):
        return Kind.STEP
    if name.startswith("gloo:"):
        return Kind.COLLECTIVE
    if name.startswith("enumerate(DataLoader)"):
        return Kind.DATA
    if name.startswith(_ISSUES):
        return Kind.ISSUE
    return None if category == "user_annotation" else Kind.OPERATOR


def _event(kind: Kind, entry: Mapping[str, Any]) -> Event:
    arguments = entry.get("args", {})
    is_on_device = entry["cat"].lower() in _DEVICE
    start_ns = _nanoseconds(entry["ts"])
    name = entry["name"].partition("(")[0] if kind is Kind.COLLECTIVE else entry["name"]
    return Event(
        kind=kind,
        name=name[:_MAX_NAME],
        start_ns=start_ns,
        end_ns=start_ns + _nanoseconds(entry["dur"]),
        lane=f"{entry['pid']}/{entry['tid']}",
        device=int(arguments.get("device", entry["pid"])) if is_on_device else None,
        shapes=_shapes(arguments.get("Input Dims", ())),
        correlation=int(arguments["correlation"]) if "correlation" in arguments else None,
    )


def _nanoseconds(microseconds: float) -> int:
    if not 0 <= microseconds < _MAX_MICROSECONDS:
        raise ValueError(f"a time of {microseconds} µs")
    return round(microseconds * 1000)


def _shapes(dims: Any) -> str:
    """Shapes of the tensors among an operator's inputs; scalars have none, lists are left out."""
    tensors = [
        "x".join(map(str, shape))
        for shape in dims
        if shape and all(isinstance(size, int) for size in shape)
    ]
    return ", ".join(tensors)[:_MAX_NAME]
