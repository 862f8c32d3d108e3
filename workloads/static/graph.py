"""How often torch.compile would have to give up: breaks in the graph of a whole model."""

from dataclasses import replace
from typing import Any

import torch
from torch._dynamo.utils import counters

from workloads.dist import Dist
from workloads.recipe import make_decoder


def num_graph_breaks(config: Any, dist: Dist) -> int:
    """Breaks that torch._dynamo meets in the forward pass of the decoder before it is cut.

    One that it cannot go on from, as within a loop, is met once: the rest is not traced at all.
    """
    decoder = make_decoder(replace(config, init="whole"), dist)
    tokens_BT = torch.zeros(config.batch_size, config.seq_len, dtype=torch.long)
    torch._dynamo.reset()
    met = counters["graph_break"]
    met.clear()
    torch.compile(decoder, backend="eager")(tokens_BT)
    return met.total()
