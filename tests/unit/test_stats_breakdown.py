"""Where a step's time goes, on small traces drawn by hand; times in milliseconds."""

import pytest

from service.stats.breakdown import Breakdown, Category, breakdown
from service.stats.trace import Event, Kind, Trace

MS = 1_000_000
MM, SHAPES = "aten::mm", "512x64, 64x64"


def event(kind: Kind, name: str, start_ms: int, end_ms: int, lane: str = "main", **values) -> Event:
    return Event(
        kind=kind, name=name, start_ns=start_ms * MS, end_ns=end_ms * MS, lane=lane, **values
    )


def step(start_ms: int, end_ms: int) -> Event:
    return event(Kind.STEP, f"ProfilerStep#{start_ms}", start_ms, end_ms)


def of(*events: Event) -> Breakdown:
    return breakdown(Trace(rank=0, events=events, software={}))


def parts(found: Breakdown) -> dict[str, int]:
    """Milliseconds of each part that has any, by collective or else by category."""
    return {p.name or p.category.value: p.time_ns // MS for p in found.parts if p.time_ns}


def operators(found: Breakdown, category: Category) -> dict[str, tuple[int, int]]:
    return {
        p.name: (p.time_ns // MS, p.num_calls) for p in found.operators if p.category is category
    }


def test_on_the_cpu_nested_operators_count_once():
    found = of(
        step(0, 100),
        event(Kind.OPERATOR, "aten::linear", 10, 50),
        event(Kind.OPERATOR, MM, 20, 45, shapes=SHAPES),
        event(Kind.OPERATOR, MM, 200, 300),
    )
    assert parts(found) == {"compute": 40, "idle": 60}
    assert operators(found, Category.COMPUTE) == {"aten::linear": (15, 1), MM: (25, 1)}


def test_communication_is_exposed_where_nothing_computes():
    found = of(
        step(0, 100),
        event(Kind.OPERATOR, MM, 0, 50),
        event(Kind.COLLECTIVE, "gloo:all_reduce", 30, 90, lane="gloo"),
        event(Kind.COLLECTIVE, "gloo:broadcast", 80, 95, lane="gloo"),
    )
    assert parts(found) == {"compute": 50, "gloo:all_reduce": 40, "gloo:broadcast": 5, "idle": 5}
    assert [p.num_calls for p in found.parts if p.name] == [1, 1]


def test_a_wait_within_an_operator_is_no_computation():
    found = of(
        step(0, 100),
        event(Kind.OPERATOR, "autograd::engine::evaluate_function: Gather", 0, 100),
        event(Kind.ISSUE, "c10d::wait_tensor", 10, 90),
        event(Kind.COLLECTIVE, "gloo:all_gather", 5, 85, lane="gloo"),
        event(Kind.OPERATOR, "aten::copy_", 20, 30, lane="gloo"),
    )
    assert parts(found) == {"compute": 20, "gloo:all_gather": 75, "c10d::wait_tensor": 5}


def test_what_a_loader_computes_is_waiting_for_data():
    found = of(
        step(0, 100),
        event(Kind.DATA, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60),
        event(Kind.OPERATOR, "aten::stack", 10, 50),
    )
    assert parts(found) == {"data": 60, "idle": 40}


def test_with_a_gpu_the_host_counts_where_the_device_is_idle():
    found = of(
        step(0, 100),
        event(Kind.OPERATOR, MM, 0, 30, shapes=SHAPES),
        event(Kind.RUNTIME, "cudaLaunchKernel", 10, 12, correlation=7),
        event(Kind.ISSUE, "c10d::allreduce_", 30, 40),
        event(Kind.KERNEL, "ampere_sgemm", 15, 70, lane="7", device=0, correlation=7),
        event(Kind.COLLECTIVE, "ncclDevKernel_AllReduce", 60, 90, lane="20", device=0),
    )
    assert parts(found) == {
        "compute": 55, "ncclDevKernel_AllReduce": 20, "host": 15, "idle": 10
    }  # fmt: skip
    assert operators(found, Category.COMPUTE) == {MM: (55, 1)}
    assert operators(found, Category.HOST) == {
        MM: (13, 1), "cudaLaunchKernel": (2, 1), "c10d::allreduce_": (0, 1)
    }  # fmt: skip


def test_a_gpu_runs_behind_but_calls_belong_to_the_step_that_launched_them():
    found = of(
        step(0, 10),
        event(Kind.OPERATOR, MM, 0, 8),
        event(Kind.RUNTIME, "cudaLaunchKernel", 1, 2, correlation=1),
        event(Kind.RUNTIME, "cudaLaunchKernel", 5, 6, correlation=2),
        event(Kind.RUNTIME, "cudaLaunchKernel", 7, 8, correlation=3),
        event(Kind.KERNEL, "gemm", 6, 12, lane="7", device=0, correlation=1),
        event(Kind.KERNEL, "gemm", 12, 15, lane="7", device=0, correlation=2),
        event(Kind.COLLECTIVE, "ncclDevKernel", 15, 20, lane="20", device=0, correlation=3),
    )
    assert operators(found, Category.COMPUTE) == {MM: (4, 2)}
    assert [(p.time_ns, p.num_calls) for p in found.parts if p.name] == [(0, 1)]


def test_a_kernel_that_no_operator_launched_has_its_own_name():
    found = of(step(0, 10), event(Kind.KERNEL, "triton_fused", 0, 4, lane="7", device=0))
    assert operators(found, Category.COMPUTE) == {"triton_fused": (4, 1)}


def test_a_child_that_outlasts_its_parent_loses_no_time():
    found = of(
        step(0, 10), event(Kind.OPERATOR, "outer", 0, 5), event(Kind.OPERATOR, "inner", 4, 6)
    )
    assert parts(found) == {"compute": 6, "idle": 4}
    assert operators(found, Category.COMPUTE) == {"outer": (4, 1), "inner": (2, 1)}


def test_a_trace_without_steps_is_refused():
    with pytest.raises(ValueError, match="no step: annotate each as `ProfilerStep#N`"):
        of(event(Kind.OPERATOR, MM, 0, 1))
