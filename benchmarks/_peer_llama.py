"""What the peers train: transformers' Llama in the sizes of our decoder."""

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from workloads.models.decoder import Decoder
from workloads.recipe import NUM_BATCHES, Recipe, batches, sizes_of


def make_llama(config: Recipe) -> LlamaForCausalLM:
    """A Llama with as many weights as our decoder, in float32, its attention by SDPA as ours is.

    It keeps no keys and values for generation, which training has no use for. Raises ValueError
    where it has another number of weights than ours.
    """
    sizes = sizes_of(config)
    torch.manual_seed(config.seed)
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=sizes.vocab_size,
            hidden_size=sizes.dim,
            intermediate_size=sizes.hidden_dim,
            num_hidden_layers=sizes.num_layers,
            num_attention_heads=sizes.num_heads,
            num_key_value_heads=sizes.num_kv_heads,
            max_position_embeddings=config.seq_len,
            rope_parameters={"rope_type": "default", "rope_theta": sizes.rope_theta},
            attn_implementation="sdpa",
            use_cache=False,
        )
    )
    with torch.device("meta"):
        ours = Decoder(sizes, config.seq_len)
    if num_weights(llama) != num_weights(ours):
        raise ValueError(
            f"model {config.model}: Llama has {num_weights(llama)} weights, our decoder "
            f"{num_weights(ours)}; choose a preset without experts"
        )
    return llama


def num_weights(model: torch.nn.Module) -> int:
    """Trained numbers of a model."""
    return sum(weight.numel() for weight in model.parameters())


def endless_tokens(config: Recipe, rank: int) -> Iterator[Tensor]:
    """Endless tokens_BT, those that our workload gives to a rank."""
    windows_BT = batches(config, torch.device("cpu"), sizes_of(config).vocab_size, rank)
    return (window_BT[:, :-1] for window_BT in windows_BT)


def tokens_of(config: Recipe, num_ranks: int) -> Tensor:
    """tokens_NT, the sequences of all ranks before they come round again."""
    ranks = (islice(endless_tokens(config, rank), NUM_BATCHES) for rank in range(num_ranks))
    return torch.cat([tokens_BT for rank in ranks for tokens_BT in rank])
