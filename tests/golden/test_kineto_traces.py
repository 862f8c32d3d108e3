"""Real traces of torch.profiler, beside where their steps' time went."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from runners.parsers import kineto
from service.stats.breakdown import Breakdown, breakdown
from service.stats.cause import cause
from service.stats.difference import Direction, difference
from service.stats.trace import Kind
from tests.conftest import missing

OWN = Path(__file__).parent / "kineto"
SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "sample_logs" / "kineto_trace"


def sample(name: str) -> Path:
    if not SAMPLES.is_dir():
        missing(f"the sample logs in {SAMPLES.parent.name}/{SAMPLES.name}")
    return SAMPLES / f"{name}.json.gz"


def parts_us(found: Breakdown) -> dict[str, float]:
    """Microseconds of each part that has any, by collective or else by category."""
    return {p.name or p.category.value: p.time_ns / 1e3 for p in found.parts if p.time_ns}


def test_a_trace_of_this_version_of_torch_on_the_cpu():
    trace = kineto.read(OWN / "cpu.json")
    assert trace.rank == 0
    assert not trace.has_device
    assert [step.name for step in trace.steps] == ["ProfilerStep#1", "ProfilerStep#2"]
    names = Counter((event.kind, event.name) for event in trace.events)
    assert names[Kind.COLLECTIVE, "gloo:all_reduce"] == names[Kind.OPERATOR, "aten::mm"] == 2
    assert names[Kind.ISSUE, "c10d::allreduce_"] == 2
    assert sum(kind is Kind.DATA for kind, _ in names.elements()) == 2
    found = breakdown(trace)
    assert {"compute", "data", "gloo:all_reduce", "idle"} <= parts_us(found).keys()
    (mm,) = [part for part in found.operators if part.name == "aten::mm"]
    assert (mm.num_calls, mm.shapes) == (2, "8x8, 8x8")
    assert sum(part.time_ns for part in found.parts) == found.time_ns


def test_the_first_generation_with_a_gpu():
    trace = kineto.read(OWN / "cuda_2021.json")
    assert (trace.rank, trace.software) == (3, {"nccl": "2.10.3"})
    found = breakdown(trace)
    reduce = "ncclKernel_AllReduce_RING_LL_Sum_float"
    expected = {"compute": 350.0, reduce: 250.0, "host": 150.0, "idle": 250.0}
    assert parts_us(found) == expected
    assert {(p.name, p.category.value): p.time_ns for p in found.operators} == {
        ("aten::mm", "compute"): 300_000,
        ("aten::mm", "host"): 130_000,
        ("cudaLaunchKernel", "host"): 20_000,
        ("nccl:all_reduce", "host"): 0,
        ("Memcpy DtoH (Device -> Pageable)", "compute"): 50_000,
    }


# The step's milliseconds, those of its parts in per cent.
SHARES = {
    "sampled_rank-0": (1230.240, {"compute": 17.2, "communication": 27.3, "host": 19.1}),
    "mi250_minitoy_train_ROCm6_2_kineto": (9.337, {"compute": 1.6, "host": 90.3}),
    "triton_example": (13336.316, {"compute": 0.0, "host": 0.0}),
}


@pytest.mark.parametrize("name", sorted(SHARES))
def test_traces_of_the_shared_collection(name: str):
    found = breakdown(kineto.read(sample(name)))
    time_ms, expected = SHARES[name]
    assert found.time_ns / 1e6 == pytest.approx(time_ms, abs=1e-3)
    shares: Counter[str] = Counter()
    for part in found.parts:
        shares[part.category.value] += 100 * part.time_ns / found.time_ns
    assert {k: shares[k] for k in expected} == pytest.approx(expected, abs=0.05)
    assert sum(part.time_ns for part in found.parts) == found.time_ns


def test_a_pair_of_the_shared_collection_differs_by_its_operators():
    sides = [[breakdown(kineto.read(sample(name)))] for name in ("base", "test")]
    found = difference(*sides)
    (rank,) = found.ranks
    directions = {row.name: row.direction for row in rank.operators}
    assert directions["All2All_Pooled_Req"] is Direction.ADDED
    assert rank.delta_s == 0
    assert cause(found).startswith("host: idle device while the host runs, +0.2 ms a step")


def test_a_trace_without_steps_is_a_trace():
    assert kineto.read(sample("benchmark_simple_add_trace")).steps == ()


def test_an_execution_trace_is_another_thing():
    with pytest.raises(ValueError, match=r"add_et.json.gz is no trace: .*'traceEvents'"):
        kineto.read(sample("benchmark_simple_add_et"))


BROKEN = {
    "empty.json": b"",
    "text.json": b"step 1 loss 5.5",
    "list.json": b"[1, 2]",
    "deep.json": b"[" * 100_000,
    "no_name.json": b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 1}]}',
    "nan.json": b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": NaN}]}',
    "endless.json": b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1e99}]}',
    "number.json": b'{"traceEvents": 7}',
    "half.json.gz": gzip.compress(b"{}" * 1000)[:20],
    "no_gz.json.gz": b"\x1f\x8bnothing",
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_what_is_no_trace_is_named(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(BROKEN[name])
    with pytest.raises(ValueError, match=f"{name} is no trace"):
        kineto.read(tmp_path / name)


def test_a_trace_may_not_unpack_to_more_than_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kineto, "MAX_BYTES", 1000)
    bomb = tmp_path / "trace-0.json.gz"
    bomb.write_bytes(gzip.compress(json.dumps({"traceEvents": [], "x": "0" * 10_000}).encode()))
    with pytest.raises(ValueError, match=r"trace-0.json.gz is no trace: .*profile fewer steps"):
        kineto.read(bomb)
