import pytest

from workloads.flops import mfu, model_flops_per_token, peak_flops_per_s


def test_flops_are_those_of_palm() -> None:
    # PaLM 540B (arXiv:2204.02311): 118 layers, 48 heads of 256, 2048 tokens; the attention adds
    # little to six FLOPs per parameter.
    flops = model_flops_per_token(
        num_params=540_350_000_000, num_layers=118, num_heads=48, head_dim=256, seq_len=2048
    )
    assert flops == 6 * 540_350_000_000 + 12 * 118 * 48 * 256 * 2048
    assert flops == pytest.approx(6 * 540.35e9, rel=0.012)


@pytest.mark.parametrize(
    ("device_name", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA B200", 2.25e15),
        ("AMD Instinct MI300X", 1300e12),
        ("AMD Instinct MI325X", 1300e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA H20", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GB200", None),
        ("NVIDIA L40", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("AMD Instinct MI350X", None),
        ("cpu", None),
    ],
)
def test_unknown_hardware_has_no_peak(device_name: str, peak: float | None) -> None:
    assert peak_flops_per_s(device_name, "bfloat16") == peak


def test_the_table_is_for_one_precision() -> None:
    assert peak_flops_per_s("NVIDIA H200", "float32") is None


def test_mfu_without_a_peak_is_unknown() -> None:
    assert mfu(400e12, 800e12) == 0.5
    assert mfu(400e12, None) is None
