"""Model FLOPs of a decoder, and the peaks of known hardware to hold them against."""

import re

FLOPS_FORMULA = "dense-decoder-1"
PEAK_TABLE = "bf16-dense-1"

# Dense BF16 peak in FLOP/s by a pattern for the device's name, first match wins. The values are
# those of torchtitan (torchtitan/tools/utils.py, get_peak_flops, commit 02581674d9db), which
# takes them from the vendors' data sheets without sparsity. We do not share its fallback: an
# unknown device has no peak. Neither has a MIG slice, which is a part of the card it names.
_PEAKS = (
    (r"\bMIG\b", None),
    (r"\bA100\b", 312e12),
    (r"\bH100 NVL\b", 835e12),
    (r"\bH100 PCIe\b", 756e12),
    (r"\bH100 80GB HBM3\b", 989e12),
    (r"\bH200\b", 989e12),
    (r"\bB200\b", 2.25e15),
    (r"\bL40S\b", 362e12),
    (r"\bMI3(00|25)X\b", 1300e12),
)


def model_flops_per_token(
    *, num_params: int, num_layers: int, num_heads: int, head_dim: int, seq_len: int
) -> int:
    """FLOPs of forward and backward for one token: 6 N + 12 L H Q T.

    `num_params` (N) leaves out embeddings that are only looked up. PaLM (arXiv:2204.02311),
    appendix B; torchtitan counts the same. The causal half of the attention is not taken off and
    recomputation is not added, so this is work asked for, not work done.
    """
    return 6 * num_params + 12 * num_layers * num_heads * head_dim * seq_len


def peak_flops_per_s(device_name: str, precision: str) -> float | None:
    """Peak of one device; None for hardware or a precision the table does not hold."""
    if precision != "bfloat16":
        return None
    return next((peak for name, peak in _PEAKS if re.search(name, device_name)), None)


def mfu(model_flops_per_s: float, peak: float | None) -> float | None:
    """Model FLOPs utilisation of one device, a ratio; None without a known peak."""
    return None if peak is None else model_flops_per_s / peak
