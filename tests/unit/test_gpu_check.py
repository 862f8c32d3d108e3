"""What `make gpu-check` takes for possible, and what it does not, of made-up figures."""

from dataclasses import replace
from importlib import import_module

import pytest

pytest.importorskip("torch")

from benchmarks._physics import Card, Figures, checks_of
from benchmarks.gpu_check import WORKLOADS, row
from workloads.__main__ import parser

CARD = Card(name="NVIDIA H100 80GB HBM3", memory_bytes=80 * 10**9)
TRAINING = Figures(
    medians={"step_time_s": 0.02, "peak_allocated_bytes": 8e9},
    event_time_s=3.0,
    wall_time_s=3.1,
    model_flops_per_s=4e14,
)
GEMM = {"flops_per_s@8192x8192x8192": 7e14}
COPY = {"copy_bytes_per_s@1073741824": 1.4e12}
LAUNCH = {"launch_time_s": 4e-6}


def micro(figures: dict[str, float]) -> Figures:
    return replace(
        TRAINING, medians={"peak_allocated_bytes": 1e9} | figures, model_flops_per_s=None
    )


def wrong(workload: str, figures: Figures, card: Card = CARD) -> list[str]:
    """Names of the figures that cannot be."""
    return [check.name for check in checks_of(workload, figures, card) if not check.is_right]


@pytest.mark.parametrize(
    ("workload", "figures"),
    [
        ("training.fsdp", TRAINING),
        ("micro.gemm", micro(GEMM)),
        ("micro.copy", micro(COPY)),
        ("micro.launch", micro(LAUNCH)),
    ],
)
def test_figures_that_can_be_are_right(workload: str, figures: Figures) -> None:
    checks = checks_of(workload, figures, CARD)
    assert len(checks) >= 3
    assert wrong(workload, figures) == []


def test_more_flops_than_the_card_has_are_wrong() -> None:
    assert wrong("training.ddp", replace(TRAINING, model_flops_per_s=1e15)) == ["training.ddp: MFU"]


def test_training_without_model_flops_is_wrong() -> None:
    assert wrong("training.ddp", replace(TRAINING, model_flops_per_s=None)) == ["training.ddp: MFU"]


@pytest.mark.parametrize("rate", [1e15, 9e12])
def test_a_product_above_the_peak_or_below_a_hundredth_of_it_is_wrong(rate: float) -> None:
    figures = micro({"flops_per_s@64x64x64": rate})
    assert wrong("micro.gemm", figures) == ["micro.gemm: 64x64x64, share of peak"]


def test_a_copy_counts_reading_and_writing() -> None:
    figures = micro({"copy_bytes_per_s@1024": 1.7e12})  # twice that is more than 3.35e12
    assert wrong("micro.copy", figures) == ["micro.copy: 1024, share of bandwidth"]


@pytest.mark.parametrize("time_s", [0.0, 1e-8, 0.1])
def test_a_launch_of_no_time_or_a_tenth_of_a_second_is_wrong(time_s: float) -> None:
    assert wrong("micro.launch", micro({"launch_time_s": time_s}))


@pytest.mark.parametrize("wall_time_s", [2.5, 7.0, 0.0])
def test_clocks_that_disagree_are_wrong(wall_time_s: float) -> None:
    figures = replace(TRAINING, wall_time_s=wall_time_s)
    assert wrong("training.single", figures) == ["training.single: event time over wall clock"]


def test_more_memory_than_the_card_has_is_wrong() -> None:
    figures = replace(TRAINING, medians=TRAINING.medians | {"peak_allocated_bytes": 81e9})
    assert wrong("training.single", figures) == [
        "training.single: peak allocated, share of the card"
    ]


def test_what_is_unknown_is_not_right() -> None:
    unknown = replace(CARD, name="Some GPU")
    assert wrong("micro.gemm", micro(GEMM), unknown)
    assert wrong("micro.copy", micro(COPY), unknown)
    (check,) = (c for c in checks_of("micro.copy", micro(COPY), unknown) if c.value is None)
    assert "unknown" in row(check)
    assert row(check).endswith("WRONG")


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("NVIDIA A100-SXM4-40GB", 1.555e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12),
        ("NVIDIA H100 PCIe", 2.0e12),
        ("NVIDIA H200", 4.8e12),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("Some GPU", None),
    ],
)
def test_bandwidth_of_memory_is_that_of_the_data_sheet(name: str, rate: float | None) -> None:
    assert replace(CARD, name=name).memory_bytes_per_s == rate


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_takes_its_options(workload: str) -> None:
    kind = import_module(f"workloads.{workload}").Config
    arguments = parser(workload, kind).parse_args(WORKLOADS[workload].split())
    assert kind(**vars(arguments)).steps >= 100
