"""A small Llama-style decoder over bytes: RMSNorm, rotary positions, SwiGLU.

Suffixes: B batch, T time, D model width, H heads, C width of a head, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes; the default has 80 thousand parameters."""

    vocab_size: int = 256
    dim: int = 48
    num_layers: int = 2
    num_heads: int = 3
    seq_len: int = 48


def rotary_tables(seq_len: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """cos_TC and sin_TC of RoFormer (arXiv:2104.09864), the two halves of a head rotated."""
    frequencies = 10_000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(seq_len), frequencies)
    angles_TC = torch.cat((angles, angles), dim=-1)
    return angles_TC.cos(), angles_TC.sin()


def rotate(x_BHTC: Tensor, cos_TC: Tensor, sin_TC: Tensor) -> Tensor:
    """Heads turned by their position."""
    first, second = x_BHTC.chunk(2, dim=-1)
    return x_BHTC * cos_TC + torch.cat((-second, first), dim=-1) * sin_TC


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_dim = config.dim // config.num_heads
        self.query = nn.Linear(config.dim, config.dim, bias=False)
        self.key = nn.Linear(config.dim, config.dim, bias=False)
        self.value = nn.Linear(config.dim, config.dim, bias=False)
        self.out = nn.Linear(config.dim, config.dim, bias=False)
        cos_TC, sin_TC = rotary_tables(config.seq_len, self.head_dim)
        self.register_buffer("cos_TC", cos_TC, persistent=False)
        self.register_buffer("sin_TC", sin_TC, persistent=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        q_BHTC = rotate(self._heads(self.query(x_BTD)), self.cos_TC, self.sin_TC)
        k_BHTC = rotate(self._heads(self.key(x_BTD)), self.cos_TC, self.sin_TC)
        v_BHTC = self._heads(self.value(x_BTD))
        y_BHTC = functional.scaled_dot_product_attention(q_BHTC, k_BHTC, v_BHTC, is_causal=True)
        return self.out(y_BHTC.transpose(1, 2).flatten(2))

    def _heads(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden = 8 * config.dim // 3
        self.gate = nn.Linear(config.dim, hidden, bias=False)
        self.up = nn.Linear(config.dim, hidden, bias=False)
        self.down = nn.Linear(hidden, config.dim, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x_BTD)) * self.up(x_BTD))


class Block(nn.Module):
    """One layer: attention, then feed-forward, each on a normalised residual."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.dim)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.RMSNorm(config.dim)
        self.feed_forward = FeedForward(config)

    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD))
        return x_BTD + self.feed_forward(self.feed_forward_norm(x_BTD))


class TinyLM(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.num_layers)))
        self.norm = nn.RMSNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab_size, bias=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.05)

    def forward(self, bytes_BT: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embedding(bytes_BT))))
