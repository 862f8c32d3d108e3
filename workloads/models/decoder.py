"""A Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Tensors carry their dimensions: B batch, T sequence, D model, H query heads, K key and value heads,
C channels of a head, F feed-forward, V vocabulary.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

from workloads.models.experts import MixtureOfExperts

STD = 0.02  # of weights at the start

Preset = Literal["debug", "small", "medium", "8b", "70b", "405b", "debug-moe", "small-moe", "8x7b"]


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Sizes of a decoder."""

    vocab_size: int
    dim: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    hidden_dim: int
    rope_theta: float = 10_000.0
    num_experts: int = 0  # 0: a plain feed-forward
    experts_per_token: int = 0

    @property
    def head_dim(self) -> int:
        return self.dim // self.num_heads


# fmt: off
PRESETS: dict[Preset, DecoderConfig] = {
    # 0.1 million parameters
    "debug": DecoderConfig(
        vocab_size=256, dim=64, num_layers=2, num_heads=4, num_kv_heads=2, hidden_dim=176),
    # 5 million
    "small": DecoderConfig(
        vocab_size=4096, dim=256, num_layers=4, num_heads=8, num_kv_heads=4, hidden_dim=704),
    # 124 million
    "medium": DecoderConfig(
        vocab_size=32_000, dim=768, num_layers=12, num_heads=12, num_kv_heads=4, hidden_dim=2048),
    # the sizes of Llama 3 (arXiv:2407.21783, table 3)
    "8b": DecoderConfig(
        vocab_size=128_256, dim=4096, num_layers=32, num_heads=32, num_kv_heads=8,
        hidden_dim=14_336, rope_theta=500_000.0),
    "70b": DecoderConfig(
        vocab_size=128_256, dim=8192, num_layers=80, num_heads=64, num_kv_heads=8,
        hidden_dim=28_672, rope_theta=500_000.0),
    "405b": DecoderConfig(
        vocab_size=128_256, dim=16_384, num_layers=126, num_heads=128, num_kv_heads=8,
        hidden_dim=53_248, rope_theta=500_000.0),
    # "debug" and "small" with experts of a quarter of their feed-forward
    "debug-moe": DecoderConfig(
        vocab_size=256, dim=64, num_layers=2, num_heads=4, num_kv_heads=2, hidden_dim=44,
        num_experts=8, experts_per_token=2),
    "small-moe": DecoderConfig(
        vocab_size=4096, dim=256, num_layers=4, num_heads=8, num_kv_heads=4, hidden_dim=176,
        num_experts=8, experts_per_token=2),
    # the sizes of Mixtral 8x7B (arXiv:2401.04088, table 1)
    "8x7b": DecoderConfig(
        vocab_size=32_000, dim=4096, num_layers=32, num_heads=32, num_kv_heads=8,
        hidden_dim=14_336, rope_theta=1_000_000.0, num_experts=8, experts_per_token=2),
}
# fmt: on


def rotary_tables(seq_len: int, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """cos_TC and sin_TC of rotary position embedding (arXiv:2104.09864, section 3.4)."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(seq_len), frequencies)
    angles_TC = torch.cat((angles, angles), dim=-1)
    return angles_TC.cos(), angles_TC.sin()


def rotate(x_BHTC: Tensor, cos_TC: Tensor, sin_TC: Tensor) -> Tensor:
    """Channel pairs (i, i + C/2) of every head, turned by their position's angle."""
    first, second = x_BHTC.chunk(2, dim=-1)
    return x_BHTC * cos_TC + torch.cat((-second, first), dim=-1) * sin_TC


Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def attend_causally(q_BHTC: Tensor, k_BKTC: Tensor, v_BKTC: Tensor) -> Tensor:
    """y_BHTC: every position looks at itself and what is before it."""
    return functional.scaled_dot_product_attention(
        q_BHTC, k_BKTC, v_BKTC, is_causal=True, enable_gqa=True
    )


class Attention(nn.Module):
    """Causal self-attention; H/K query heads share each key and value head.

    Where ranks hold parts of the sequence, `attend` is replaced by one that talks to the others.
    """

    attend: Attend

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        kv_dim = config.num_kv_heads * config.head_dim
        self.query = nn.Linear(config.dim, config.dim, bias=False)
        self.key = nn.Linear(config.dim, kv_dim, bias=False)
        self.value = nn.Linear(config.dim, kv_dim, bias=False)
        self.out = nn.Linear(config.dim, config.dim, bias=False)
        self.attend = attend_causally

    def forward(self, x_BTD: Tensor, cos_TC: Tensor, sin_TC: Tensor) -> Tensor:
        q_BHTC = rotate(self._heads(self.query(x_BTD)), cos_TC, sin_TC)
        k_BKTC = rotate(self._heads(self.key(x_BTD)), cos_TC, sin_TC)
        v_BKTC = self._heads(self.value(x_BTD))
        y_BHTC = self.attend(q_BHTC, k_BKTC, v_BKTC)
        return self.out(y_BHTC.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class FeedForward(nn.Module):
    """SwiGLU (arXiv:2002.05202)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.dim, config.hidden_dim, bias=False)
        self.up = nn.Linear(config.dim, config.hidden_dim, bias=False)
        self.down = nn.Linear(config.hidden_dim, config.dim, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        h_BTF = functional.silu(self.gate(x_BTD)) * self.up(x_BTD)
        return self.down(h_BTF)


class Block(nn.Module):
    """One layer: attention and feed-forward, each on a normalised residual stream."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.dim)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.RMSNorm(config.dim)
        self.feed_forward = (
            MixtureOfExperts(
                config.dim, config.hidden_dim, config.num_experts, config.experts_per_token
            )
            if config.num_experts
            else FeedForward(config)
        )

    def forward(self, x_BTD: Tensor, cos_TC: Tensor, sin_TC: Tensor) -> Tensor:
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), cos_TC, sin_TC)
        return x_BTD + self.feed_forward(self.feed_forward_norm(x_BTD))


class Decoder(nn.Module):
    """tokens_BT in, logits_BTV of the next token out. Embedding and output are not tied."""

    def __init__(self, config: DecoderConfig, seq_len: int) -> None:
        super().__init__()
        self.vocab_size = config.vocab_size
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.dim)
        self.out = nn.Linear(config.dim, config.vocab_size, bias=False)
        with torch.device("cpu") if self.norm.weight.is_meta else nullcontext():
            cos_TC, sin_TC = rotary_tables(seq_len, config.head_dim, config.rope_theta)
        self.register_buffer("cos_TC", cos_TC, persistent=False)
        self.register_buffer("sin_TC", sin_TC, persistent=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=STD)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        T = tokens_BT.shape[1]
        cos_TC, sin_TC = self.cos_TC[:T], self.sin_TC[:T]
        x_BTD = self.embedding(tokens_BT)
        for block in self.blocks:
            x_BTD = block(x_BTD, cos_TC, sin_TC)
        return self.out(self.norm(x_BTD))

    def num_matmul_params(self) -> int:
        """Parameters that a token is multiplied by: not the embedding, which is looked up, and not
        the experts it is not sent to.
        """
        layers = [block.feed_forward for block in self.blocks]
        idle = sum(
            layer.num_idle_params() for layer in layers if isinstance(layer, MixtureOfExperts)
        )
        all_of_them = sum(weight.numel() for weight in self.parameters())
        return all_of_them - self.embedding.weight.numel() - idle


def draw(part: nn.Module, device: torch.device, seed: int, rank: int) -> None:
    """Give the part of a decoder that a rank holds, made on the meta device, memory and weights.

    Ranks that hold the same shard draw the same. A weight that is no DTensor is the rank's own.
    """
    part._apply(lambda t: torch.empty_like(t, device=device) if t.is_meta else t.to(device))
    for number, weight in enumerate(part.parameters()):
        held = weight.to_local() if isinstance(weight, DTensor) else weight
        place = _shard_of(weight) if isinstance(weight, DTensor) else [rank]
        generator = torch.Generator(device).manual_seed(hash((seed, number, *place)))
        with torch.no_grad():
            if weight.dim() > 1:
                held.normal_(std=STD, generator=generator)
            else:
                held.fill_(1.0)


def _shard_of(weight: DTensor) -> list[int]:
    """Where on its mesh a rank's shard is another one than its neighbour's."""
    places = zip(weight.device_mesh.get_coordinate(), weight.placements, strict=True)
    return [place for place, placement in places if not placement.is_replicate()]
