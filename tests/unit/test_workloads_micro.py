# ruff: noqa: E402  (torch is an extra)
"""Micro-benchmarks: options, formulas and what a step times, on the CPU and on a fake GPU."""

from itertools import islice
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.unit.test_workloads_dist import GPU, FakeCuda
from workloads.dist import Dist, Stopwatch
from workloads.micro import attention, copy, gemm, launch
from workloads.shapes import shapes

CPU = torch.device("cpu")
ALONE = Dist(rank=0, world_size=1, device=CPU, device_name="cpu", init_time_s=0.0)


def test_shapes_are_read_from_a_text() -> None:
    assert shapes("shapes", "1x2x3,40x50x60", 3) == [(1, 2, 3), (40, 50, 60)]
    assert shapes("seq_lens", "128,256", 1) == [(128,), (256,)]


@pytest.mark.parametrize("text", ["", "1x2", "1x2x3,", "1x2x0", "1x2x-3", "axbxc", "1x2x3x4"])
def test_texts_that_are_no_shapes(text: str) -> None:
    with pytest.raises(ValueError, match=f"shapes is '{text}'; give shapes such as 64x64x64"):
        shapes("shapes", text, 3)


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        (gemm.Config, {"shapes": "64x64"}, "shapes is '64x64'"),
        (gemm.Config, {"repeats": 0}, "repeats is 0"),
        (attention.Config, {"seq_lens": "64x64"}, "seq_lens is '64x64'; .* such as 64,128"),
        (attention.Config, {"num_heads": 0}, "num_heads is 0"),
        (copy.Config, {"factor": 0}, "factor is 0"),
        (launch.Config, {"repeats": -1}, "repeats is -1"),
    ],
)
def test_options_that_make_no_measurement(config: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config(**options)


@pytest.mark.parametrize("direction", ["host_to_device", "device_to_host", "device_to_device"])
def test_copies_of_a_gpu_need_one(direction: Any) -> None:
    with pytest.raises(ValueError, match=f"direction is {direction}, .* choose host_to_host"):
        copy.run(copy.Config(direction=direction), ALONE)


@pytest.mark.parametrize(
    ("direction", "places"),
    [
        ("host_to_device", (CPU, GPU)),
        ("device_to_host", (GPU, CPU)),
        ("device_to_device", (GPU, GPU)),
        ("host_to_host", (CPU, CPU)),
    ],
)
def test_where_copies_start_and_end(direction: Any, places: Any) -> None:
    assert copy.places(copy.Config(direction=direction), GPU) == places


@pytest.mark.parametrize(
    ("workload", "options", "names"),
    [
        (gemm, {"shapes": "4x5x6,7x8x9"}, ["flops_per_s@4x5x6", "flops_per_s@7x8x9"]),
        (gemm, {"shapes": "4x5x6", "dtype": "bfloat16"}, ["flops_per_s@4x5x6"]),
        (attention, {"seq_lens": "8,16"}, ["flops_per_s@8", "flops_per_s@16"]),
        (copy, {"max_bytes": 65536}, ["copy_bytes_per_s@4096", "copy_bytes_per_s@65536"]),
        (launch, {}, ["launch_time_s"]),
    ],
)
def test_every_step_notes_what_it_timed(
    workload: ModuleType, options: dict[str, Any], names: list[str]
) -> None:
    for facts in islice(workload.run(workload.Config(**options), ALONE), 2):
        assert list(facts) == names
        assert all(value.item() > 0 for value in facts.values())


def test_a_product_has_the_shape_of_its_name() -> None:
    product = gemm.product((4, 5, 6), torch.float32, CPU)()
    left, right = gemm.product((4, 5, 6), torch.float32, CPU).args
    assert product.shape == (4, 5)
    assert torch.equal(product, left @ right)


def test_a_copy_arrives() -> None:
    call = copy.copy_of(100, CPU, CPU)
    end = call.func.__self__.zero_()
    call()
    assert end.sum() == 100


def test_rates_are_work_over_time() -> None:
    assert gemm.flops_per_s(2, 3, 4, 0.5) == 96
    assert copy.bytes_per_s(100, 0.5) == 200
    # Forward: two products, 2 x 2 T^2 D, halved by the mask; backward: five, halved, too.
    products = (2 + 5) * 2 * 16**2 * 64 / 2
    assert attention.flops_per_s(16, 8, 64, 0.5) == products * 8 / 0.5


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (lambda call, watch: gemm.steps({(10, 10, 10): call}, 4, watch), 2000 / 0.005),
        (lambda call, watch: copy.steps({1000: call}, 4, watch), 1000 / 0.005),
        (
            lambda call, watch: attention.steps(
                SimpleNamespace(batch_size=1, num_heads=1, head_dim=10, repeats=4),
                {10: call},
                watch,
            ),
            7000 / 0.005,
        ),
    ],
)
def test_a_gpu_is_timed_by_its_events_without_waiting(steps: Any, expected: float) -> None:
    cuda = FakeCuda()
    noted = next(steps(cuda.launch, Stopwatch(GPU, cuda)))
    assert cuda.num_synchronized == 0
    cuda.synchronize()
    assert [value.item() for value in noted.values()] == [pytest.approx(expected)]
