"""A layer of experts: a router sends every token to the few that it scores highest.

N tokens, D model, E experts, F feed-forward of one expert, S = N · experts per token: a token is
sent S / N times.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

# x_SD sorted by expert, and how many of them are each expert's: what the experts make of them.
Compute = Callable[[Tensor, Tensor], Tensor]


class Experts(nn.Module):
    """SwiGLU feed-forwards side by side. Where ranks hold some of them each, `compute` is replaced
    by one that sends the tokens there.
    """

    compute: Compute

    def __init__(self, dim: int, hidden_dim: int, num_experts: int) -> None:
        super().__init__()
        self.gate_EDF = nn.Parameter(torch.empty(num_experts, dim, hidden_dim))
        self.up_EDF = nn.Parameter(torch.empty(num_experts, dim, hidden_dim))
        self.down_EFD = nn.Parameter(torch.empty(num_experts, hidden_dim, dim))
        self.compute = self.here

    def forward(self, x_SD: Tensor, counts_E: Tensor) -> Tensor:
        return self.compute(x_SD, counts_E)

    def here(self, x_SD: Tensor, counts_E: Tensor) -> Tensor:
        """What the experts that this rank holds make of the tokens."""
        held = (_held(weight, x_SD.dtype) for weight in (self.gate_EDF, self.up_EDF, self.down_EFD))
        weights = zip(*held, strict=True)
        parts = x_SD.split(counts_E.tolist())
        return torch.cat(
            [
                (functional.silu(part @ gate) * (part @ up)) @ down
                for part, (gate, up, down) in zip(parts, weights, strict=True)
            ]
        )


class MixtureOfExperts(nn.Module):
    """The best experts of each token, weighted by a softmax over their scores (arXiv:2401.04088,
    section 2.1). There is no capacity, so no token is dropped, and no loss for balance.
    """

    def __init__(self, dim: int, hidden_dim: int, num_experts: int, per_token: int) -> None:
        super().__init__()
        self.per_token = per_token
        self.router = nn.Linear(dim, num_experts, bias=False)
        self.experts = Experts(dim, hidden_dim, num_experts)

    def forward(self, x_BTD: Tensor) -> Tensor:
        x_ND = x_BTD.flatten(0, 1)
        scores, experts = self.router(x_ND).topk(self.per_token)
        shares_S = scores.softmax(dim=-1).flatten()
        chosen_S = experts.flatten()
        by_expert = chosen_S.argsort(stable=True)
        tokens_S = by_expert // self.per_token
        counts_E = chosen_S.bincount(minlength=self.router.out_features)
        y_SD = self.experts(x_ND[tokens_S], counts_E) * shares_S[by_expert, None]
        return torch.zeros_like(x_ND).index_add(0, tokens_S, y_SD.to(x_ND.dtype)).view_as(x_BTD)

    def num_idle_params(self) -> int:
        """Parameters of the experts that a token is not sent to."""
        num_experts = self.router.out_features
        all_of_them = sum(weight.numel() for weight in self.experts.parameters())
        return all_of_them // num_experts * (num_experts - self.per_token)


def _held(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The part of a weight that this rank holds, in the precision of what it is multiplied by."""
    return (weight.to_local() if isinstance(weight, DTensor) else weight).to(dtype)
