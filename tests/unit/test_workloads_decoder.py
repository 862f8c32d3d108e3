# ruff: noqa: E402  (torch is an extra)
from typing import get_args

import pytest

torch = pytest.importorskip("torch")

from workloads.models.decoder import (
    PRESETS,
    Decoder,
    DecoderConfig,
    Preset,
    rotary_tables,
    rotate,
)

SMALL = DecoderConfig(
    vocab_size=31, dim=24, num_layers=2, num_heads=6, num_kv_heads=2, hidden_dim=40
)


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(1)
    return Decoder(SMALL, seq_len=16)


@pytest.mark.parametrize("seq_len", [1, 7, 16])
def test_logits_have_one_row_per_token(decoder: Decoder, seq_len: int) -> None:
    tokens_BT = torch.randint(SMALL.vocab_size, (3, seq_len))
    assert decoder(tokens_BT).shape == (3, seq_len, SMALL.vocab_size)


def test_a_token_sees_nothing_of_the_future(decoder: Decoder) -> None:
    tokens_BT = torch.randint(SMALL.vocab_size, (1, 10))
    changed_BT = tokens_BT.clone()
    changed_BT[0, 6:] = (changed_BT[0, 6:] + 1) % SMALL.vocab_size
    before, after = decoder(tokens_BT), decoder(changed_BT)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


def test_every_parameter_learns(decoder: Decoder) -> None:
    decoder(torch.randint(SMALL.vocab_size, (2, 16))).square().mean().backward()
    for name, weight in decoder.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


def test_rotation_keeps_lengths_and_sees_distances_only() -> None:
    cos_TC, sin_TC = rotary_tables(seq_len=32, head_dim=8, theta=10_000.0)
    q_BHTC, k_BHTC = torch.randn(2, 1, 1, 1, 8).expand(2, 1, 1, 32, 8)
    q_BHTC, k_BHTC = rotate(q_BHTC, cos_TC, sin_TC), rotate(k_BHTC, cos_TC, sin_TC)
    lengths = q_BHTC.norm(dim=-1)
    torch.testing.assert_close(lengths, lengths[..., :1].expand_as(lengths))
    scores_TT = (q_BHTC @ k_BHTC.transpose(-2, -1))[0, 0]
    for distance in (-5, 0, 9):
        diagonal = scores_TT.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-4)


def test_the_embedding_is_no_matrix_product(decoder: Decoder) -> None:
    everything = sum(weight.numel() for weight in decoder.parameters())
    assert decoder.num_matmul_params() == everything - SMALL.vocab_size * SMALL.dim


def test_every_preset_can_be_chosen_and_fits_together() -> None:
    assert get_args(Preset) == tuple(PRESETS)
    for config in PRESETS.values():
        assert config.dim % config.num_heads == 0
        assert config.num_heads % config.num_kv_heads == 0
        assert config.head_dim % 2 == 0


@pytest.mark.parametrize(
    ("preset", "num_params", "num_active"),
    [
        ("8b", 8_030_261_248, 8_030_261_248),  # Llama 3.1, as published with its weights
        ("70b", 70_553_706_496, 70_553_706_496),
        ("405b", 405_853_388_800, 405_853_388_800),
        ("8x7b", 46_702_792_704, 12_879_925_248),  # Mixtral: 47 billion, of which 13 are active
    ],
)
def test_presets_have_the_parameters_of_what_they_are_named_for(
    preset: Preset, num_params: int, num_active: int
) -> None:
    with torch.device("meta"):
        decoder = Decoder(PRESETS[preset], seq_len=8)
    assert sum(weight.numel() for weight in decoder.parameters()) == num_params
    assert decoder.num_matmul_params() + decoder.embedding.weight.numel() == num_active
