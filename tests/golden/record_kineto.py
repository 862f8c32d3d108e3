"""Records what torch.profiler really writes: `python -m tests.golden.record_kineto`.

Run it after an update of torch, and review the difference: the parser must keep up.
"""

import json
import tempfile
from pathlib import Path

import torch
import torch.distributed as c10d
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader

FILE = Path(__file__).parent / "kineto" / "cpu.json"
UNSTABLE = {"trace_id", "host_name", "traceName", "baseTimeNanoseconds"}


def record() -> dict[str, object]:
    """A trace of two steps that load, multiply and reduce; machine and processes taken out."""
    c10d.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
    batches = iter(DataLoader(list(range(8))))
    square = torch.ones(8, 8)
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=plan,
            record_shapes=True,
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        ) as profiler:
            for _ in range(3):
                next(batches)
                c10d.all_reduce(square @ square)
                profiler.step()
        trace = json.loads(path.read_text())
    c10d.destroy_process_group()
    return anonymous(trace)


def anonymous(trace: dict[str, object]) -> dict[str, object]:
    """The trace with processes and threads numbered, and without the machine's facts."""
    events: list[dict[str, object]] = trace["traceEvents"]  # type: ignore[assignment]
    numbers: dict[object, int] = {}
    for event in events:
        for key in ("pid", "tid", "id"):
            if isinstance(event.get(key), int):
                event[key] = numbers.setdefault(event[key], len(numbers))
    kept = [event for event in events if event["ph"] in ("X", "s", "f")]
    return {k: v for k, v in trace.items() if k not in UNSTABLE} | {"traceEvents": kept}


if __name__ == "__main__":
    text = json.dumps(record(), indent=None, separators=(",", ":"))
    FILE.write_text(text.replace('{"ph"', '\n{"ph"') + "\n")
    print(FILE)
