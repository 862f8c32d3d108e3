"""Tokens in files: where they lie, how they are read, and a corpus of our own to read.

A corpus is a folder of shards: token files (`*.bin`, one integer after the other, no header, in the
machine's byte order), or tar files (`*.tar`) whose members are documents of such tokens. A folder
is a local one, or a URL that fsspec knows, such as `s3://bucket/tokens`.

In our own corpus each token is a function of its position, so that a reader can be checked.
"""

import tarfile
from array import array
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO, Literal

import torch
from torch import Tensor

Dtype = Literal["uint16", "uint32"]
TYPE_CODES: dict[Dtype, str] = {"uint16": "H", "uint32": "I"}  # of Python's array
NUM_TOKEN_FILES = 4
DOCUMENT_LENGTHS = (700, 90, 1300)  # tokens; our own documents take turns in them


def is_url(path: str) -> bool:
    """Whether fsspec must read it."""
    return "://" in path


def filesystem(url: str) -> Any:
    """The fsspec file system of a URL. Raises ValueError where this side cannot read it."""
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url)[0]
    except (ImportError, ValueError) as error:
        raise ValueError(
            f"path {url} needs fsspec and its package for this kind of URL in the side's "
            f"environment; install them, or give a local folder ({error})"
        ) from error


def shards(path: str, suffix: str) -> list[str]:
    """The files of a corpus by name, as paths or URLs. Raises ValueError where there are none."""
    if is_url(path):
        found = [str(name) for name in filesystem(path).glob(f"{path.rstrip('/')}/*{suffix}")]
    elif Path(path).is_dir():
        found = [str(file) for file in Path(path).glob(f"*{suffix}")]
    else:
        raise ValueError(f"path {path} is no folder; give one that holds *{suffix} files")
    if not found:
        raise ValueError(f"path {path} holds no *{suffix} files; give a folder that does")
    return sorted(f"{path.rstrip('/')}/{name.rpartition('/')[2]}" for name in found)


def open_shard(shard: str) -> BinaryIO:
    """A shard to be read from its beginning."""
    if is_url(shard):
        return filesystem(shard).open(shard, "rb")
    return Path(shard).open("rb")


def dtype_of(name: Dtype) -> torch.dtype:
    """torch's type of that name."""
    return getattr(torch, name)


def num_tokens(shard: str, dtype: Dtype) -> int:
    """Tokens of a token file. Raises ValueError where its size cannot be that of `dtype`."""
    size = filesystem(shard).size(shard) if is_url(shard) else Path(shard).stat().st_size
    return whole_tokens(size, dtype, shard)


def whole_tokens(num_bytes: int, dtype: Dtype, where: str) -> int:
    """How many tokens so many bytes are. Raises ValueError for none, or half a token."""
    count, rest = divmod(num_bytes, dtype_of(dtype).itemsize)
    if rest or not count:
        raise ValueError(f"{where} has {num_bytes} bytes, which is no number of {dtype} tokens")
    return count


@cache
def mapped(file: str, dtype: Dtype) -> Tensor:
    """The tokens of a local token file, mapped into memory once for each process."""
    size = num_tokens(file, dtype)
    return torch.from_file(file, shared=False, size=size, dtype=dtype_of(dtype))


def read_tokens(shard: str, dtype: Dtype, start: int, count: int) -> Tensor:
    """Tokens of a token file from `start` on, as int64: from the map, or by one ranged request."""
    if not is_url(shard):
        return mapped(shard, dtype)[start : start + count].long()
    width = dtype_of(dtype).itemsize
    return decoded(filesystem(shard).cat_file(shard, start * width, (start + count) * width), dtype)


def read_documents(shard: str, dtype: Dtype) -> Iterator[Tensor]:
    """The documents of a tar file in its order, as int64 tokens; the file is streamed.

    Raises ValueError for a shard without documents and for half a token, tarfile.ReadError for a
    shard that breaks off in a document.
    """
    is_empty = True
    with open_shard(shard) as file, tarfile.open(fileobj=file, mode="r|*") as members:
        for member in members:
            if (document := members.extractfile(member)) is not None:
                whole_tokens(member.size, dtype, f"{shard}, {member.name},")
                yield decoded(document.read(), dtype)
                is_empty = False
    if is_empty:
        raise ValueError(f"{shard} holds no documents; remove it")


def decoded(data: bytes, dtype: Dtype) -> Tensor:
    """Tokens as int64."""
    return torch.frombuffer(bytearray(data), dtype=dtype_of(dtype)).long()


def encoded(tokens: Tensor, dtype: Dtype) -> bytes:
    """Tokens as they stand in a file. Raises OverflowError for one that `dtype` cannot hold."""
    return array(TYPE_CODES[dtype], tokens.tolist()).tobytes()


def check_tokens(tokens: Tensor, vocab_size: int, where: str) -> None:
    """Raise ValueError for a token that is not of the vocabulary."""
    if (highest := int(tokens.max())) >= vocab_size:
        raise ValueError(
            f"{where} has a token {highest}, which is not below vocab_size {vocab_size}; "
            "is dtype that of the files?"
        )


def tokens_at(start: int, end: int, vocab_size: int) -> Tensor:
    """Our own corpus between two positions: random, but some tokens are far more frequent.

    The high bits of Knuth's multiplicative hash (The Art of Computer Programming, section 6.4), as
    a fraction, cubed.
    """
    uniform = (torch.arange(start, end) * 2_654_435_761 % 2**32) >> 17  # 15 bits: no cube overflows
    return (uniform**3 * vocab_size) >> 45


def check_dtype(dtype: Dtype, vocab_size: int) -> None:
    """Raise ValueError where `dtype` cannot hold the vocabulary."""
    if vocab_size > 256 ** dtype_of(dtype).itemsize:
        raise ValueError(f"dtype {dtype} is too small for vocab_size {vocab_size}; take uint32")


def write_token_files(folder: Path, num_tokens: int, vocab_size: int, dtype: Dtype) -> None:
    """Our own corpus as token files. Raises ValueError where `dtype` is too small."""
    check_dtype(dtype, vocab_size)
    for number, positions in enumerate(parts(num_tokens, NUM_TOKEN_FILES)):
        tokens = tokens_at(positions.start, positions.stop, vocab_size)
        (folder / f"{number:05}.bin").write_bytes(encoded(tokens, dtype))


def write_tar_files(
    folder: Path, num_shards: int, num_tokens: int, vocab_size: int, dtype: Dtype
) -> None:
    """Our own corpus as tar files. Raises ValueError where `dtype` is too small."""
    check_dtype(dtype, vocab_size)
    for number, positions in enumerate(parts(num_tokens, num_shards)):
        with tarfile.open(folder / f"{number:05}.tar", "w") as shard:
            for document in documents_in(positions):
                tokens = tokens_at(document.start, document.stop, vocab_size)
                data = encoded(tokens, dtype)
                member = tarfile.TarInfo(f"{document.start:012}.bin")
                member.size = len(data)
                shard.addfile(member, BytesIO(data))


def parts(num_tokens: int, num_parts: int) -> list[range]:
    """Positions of the shards; the last is the shortest."""
    size = -(-num_tokens // num_parts)
    return [range(start, min(start + size, num_tokens)) for start in range(0, num_tokens, size)]


def documents_in(positions: range) -> Iterator[range]:
    """Positions of the documents of a shard; the last is cut."""
    start = positions.start
    for length in cycle(DOCUMENT_LENGTHS):
        if start >= positions.stop:
            return
        yield range(start, min(start + length, positions.stop))
        start += length
