"""Context-parallel training: every rank holds a part of each sequence, all of it the model.

Only attention needs what the others hold. Either all ranks gather keys and values, as Llama 3 did
(arXiv:2407.21783, section 3.3.2), or they trade a part of the sequence for a part of the heads and
back (Ulysses, arXiv:2309.14509). Both are written out here: torch's own has kernels for CUDA only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.distributed as c10d
from torch import Tensor
from torch.distributed import _functional_collectives as collectives
from torch.nn.functional import scaled_dot_product_attention

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.models.decoder import Attend, attend_causally
from workloads.recipe import Parallel, Recipe, make_pass, sizes_of, train

_HEADS, _SEQUENCE = 1, 2  # dimensions of q_BHTC


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""

    exchange: Annotated[
        Literal["keys", "heads"], "gather keys and values, or trade sequence for heads (Ulysses)"
    ] = "keys"


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where ranks do not divide the sequence."""
    return train(config, dist, parallelize)


def parallelize(decoder: Any, config: Config, dist: Dist) -> Parallel:
    """The decoder with the positions of its part, attention that sees what comes before it, and
    gradients averaged over all ranks. Raises ValueError.
    """
    length, rest = divmod(config.seq_len, dist.world_size)
    if rest:
        raise ValueError(f"a sequence of {config.seq_len} has no {dist.world_size} equal parts")
    num_kv_heads = sizes_of(config).num_kv_heads
    if config.exchange == "heads" and num_kv_heads % dist.world_size:
        raise ValueError(f"{num_kv_heads} key and value heads do not go to {dist.world_size} ranks")
    mine = slice(dist.rank * length, (dist.rank + 1) * length)
    decoder.cos_TC, decoder.sin_TC = decoder.cos_TC[mine], decoder.sin_TC[mine]
    attend = trading_heads(dist) if config.exchange == "heads" else gathering_keys(config, dist)
    for block in decoder.blocks:
        block.attention.attend = attend
    # Its positions are this rank's own, which DDP would replace by those of the first.
    model = dist.replicated(decoder, broadcast_buffers=False)
    of_a_part = make_pass(model, dist.device, config.half)
    return Parallel(
        model=model,
        both_ways=lambda window_BT, weight: of_a_part(share(config, dist, window_BT), weight),
        replica=0,
        ranks_per_replica=dist.world_size,
    )


def share(config: Config, dist: Dist, window_BT: Tensor) -> Tensor:
    """This rank's tokens of a window, and one more, which the last of them predicts."""
    length = config.seq_len // dist.world_size
    start = dist.rank * length
    return window_BT[:, start : start + length + 1]


def gathering_keys(config: Config, dist: Dist) -> Attend:
    """Attention of this part's queries to the keys and values of the whole sequence."""
    length = config.seq_len // dist.world_size
    shape = (config.seq_len, config.seq_len)
    causal_TT = torch.ones(shape, dtype=torch.bool, device=dist.device).tril()
    mask_TT = causal_TT[dist.rank * length : (dist.rank + 1) * length]

    def whole(part_BKTC: Tensor) -> Tensor:
        return collectives.all_gather_single_autograd(
            part_BKTC.contiguous(), _SEQUENCE, c10d.group.WORLD
        )

    def attend(q_BHTC: Tensor, k_BKTC: Tensor, v_BKTC: Tensor) -> Tensor:
        return scaled_dot_product_attention(
            q_BHTC, whole(k_BKTC), whole(v_BKTC), attn_mask=mask_TT, enable_gqa=True
        )

    return attend


def trading_heads(dist: Dist) -> Attend:
    """Attention over the whole sequence for a part of the heads."""

    def trade(x: Tensor, give: int, take: int) -> Tensor:
        """A part of dimension `give` to each rank, for its part of dimension `take`."""
        parts = torch.stack(x.chunk(dist.world_size, give)).contiguous()
        traded = collectives.all_to_all_single_autograd(
            parts.flatten(1), None, None, c10d.group.WORLD
        )
        return torch.cat(traded.view(parts.shape).unbind(0), take)

    def attend(q_BHTC: Tensor, k_BKTC: Tensor, v_BKTC: Tensor) -> Tensor:
        traded = (trade(x, _HEADS, _SEQUENCE) for x in (q_BHTC, k_BKTC, v_BKTC))
        return trade(attend_causally(*traded), _SEQUENCE, _HEADS)

    return attend
