"""Bytes to learn from: the source of Python's own standard library, read where it is installed."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

CORPUS_BYTES = 4_000_000


def corpus(num_bytes: int = CORPUS_BYTES) -> Tensor:
    """The first `num_bytes` of the library's modules in alphabetical order, as uint8."""
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= num_bytes:
            break
    return torch.frombuffer(text, dtype=torch.uint8)[:num_bytes]


def batches(text: Tensor, batch_size: int, seq_len: int, seed: int) -> Iterator[Tensor]:
    """Endless windows of seq_len + 1 bytes as int64, from places drawn with `seed`."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(seq_len + 1)
    while True:
        starts = torch.randint(len(text) - seq_len, (batch_size, 1), generator=generator)
        yield text[starts + offsets].long()
