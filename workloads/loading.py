"""Batches from files by torch's DataLoader: endless, different on every rank.

B sequences of a batch, T tokens of a sequence. A window is T + 1 tokens: its inputs and, one
further, its targets.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info

from workloads.corpus import (
    Dtype,
    check_tokens,
    num_tokens,
    read_documents,
    read_tokens,
    shards,
    write_tar_files,
    write_token_files,
)
from workloads.dist import Dist
from workloads.harness import Facts

NUM_OWN_BATCHES = 16  # for each rank, in a corpus of our own


@dataclass(frozen=True, kw_only=True)
class Loading:
    """The command line of everything that reads tokens."""

    path: Annotated[str, "folder of the corpus, or its fsspec URL; empty: one of our own"] = ""
    dtype: Annotated[Dtype, "of a token in the files"] = "uint16"
    workers: Annotated[int, "processes of a rank that read; 0: the rank itself"] = 0
    prefetch: Annotated[int, "batches that each worker reads ahead"] = 2
    seq_len: Annotated[int, "tokens per sequence"] = 128
    batch_size: Annotated[int, "sequences per rank and step"] = 4
    steps: Annotated[int, "batches"] = 200
    seed: Annotated[int, "of the order of reading"] = 1

    @property
    def num_readers(self) -> int:
        return max(self.workers, 1)


class Windows(Dataset[Tensor]):
    """The windows of token files: side by side, sharing one token; the rest of a file is left."""

    def __init__(self, files: Sequence[str], dtype: Dtype, seq_len: int) -> None:
        self._files, self._dtype, self._seq_len = files, dtype, seq_len
        self._ends = list(accumulate((num_tokens(file, dtype) - 1) // seq_len for file in files))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Tensor:
        file = bisect_right(self._ends, index)
        start = (index - (self._ends[file - 1] if file else 0)) * self._seq_len
        return read_tokens(self._files[file], self._dtype, start, self._seq_len + 1)

    def check(self, vocab_size: int) -> None:
        """Raise ValueError where a file begins with tokens that are not of the vocabulary."""
        for file in self._files:
            check_tokens(read_tokens(file, self._dtype, 0, self._seq_len + 1), vocab_size, file)


@dataclass(frozen=True)
class Draw(Sampler[int]):
    """Indices drawn for ever, with replacement; each rank draws from indices of its own."""

    num_windows: int
    dist: Dist
    seed: int

    def __iter__(self) -> Iterator[int]:
        chance = random.Random(self.seed)
        mine = range(self.dist.rank, self.num_windows, self.dist.world_size)
        return (chance.choice(mine) for _ in count())


@dataclass(frozen=True)
class Documents(IterableDataset[Tensor]):
    """Windows of the documents in tar files, one document behind the other, epoch after epoch.

    Every epoch takes the files in another order and deals them out to ranks and their workers.
    """

    files: Sequence[str]
    loading: Loading
    dist: Dist

    def __iter__(self) -> Iterator[Tensor]:
        worker = get_worker_info()
        reader = self.dist.rank * self.loading.num_readers + (worker.id if worker else 0)
        return windows(self.documents(reader), self.loading.seq_len)

    def documents(self, reader: int) -> Iterator[Tensor]:
        """What one of all readers reads."""
        for epoch in count():
            for file in self.share(reader, epoch):
                yield from read_documents(file, self.loading.dtype)

    def share(self, reader: int, epoch: int) -> list[str]:
        """The files that a reader reads in an epoch."""
        order = random.Random(self.loading.seed + epoch).sample(self.files, len(self.files))
        return order[reader :: self.dist.world_size * self.loading.num_readers]


def windows(documents: Iterable[Tensor], seq_len: int) -> Iterator[Tensor]:
    """Windows across the borders of documents, side by side, sharing one token."""
    rest = torch.empty(0, dtype=torch.int64)
    for document in documents:
        rest = torch.cat((rest, document))
        while len(rest) > seq_len:
            yield rest[: seq_len + 1]
            rest = rest[seq_len:]


def random_windows(
    loading: Loading, vocab_size: int, dist: Dist, stack: ExitStack
) -> Iterator[Tensor]:
    """Batches of random windows of token files, on the rank's device.

    `stack` gets what is to be removed at the end. Raises ValueError for options that cannot be and
    for files that are not such a corpus.
    """

    def write(folder: Path) -> None:
        write_token_files(folder, num_own_tokens(loading, dist), vocab_size, loading.dtype)

    check_counts(loading)
    path = loading.path or own_corpus(write, stack)
    dataset = Windows(shards(path, ".bin"), loading.dtype, loading.seq_len)
    if len(dataset) < dist.world_size:
        raise ValueError(
            f"path {path} has {len(dataset)} windows of seq_len {loading.seq_len}, too few for "
            f"{dist.world_size} ranks; add tokens or take a smaller seq_len"
        )
    dataset.check(vocab_size)
    return batches(dataset, loading, dist, Draw(len(dataset), dist, loading.seed))


def document_windows(
    loading: Loading, vocab_size: int, dist: Dist, stack: ExitStack
) -> Iterator[Tensor]:
    """Batches of windows of documents in tar files, on the rank's device; see random_windows."""

    def write(folder: Path) -> None:
        num_tokens = num_own_tokens(loading, dist)
        write_tar_files(folder, 2 * num_readers, num_tokens, vocab_size, loading.dtype)

    check_counts(loading)
    num_readers = dist.world_size * loading.num_readers
    path = loading.path or own_corpus(write, stack)
    files = shards(path, ".tar")
    if len(files) < num_readers:
        raise ValueError(
            f"path {path} has {len(files)} *.tar files, too few for {num_readers} readers; "
            "cut the corpus finer or take fewer workers"
        )
    check_tokens(next(read_documents(files[0], loading.dtype)), vocab_size, files[0])
    return batches(Documents(files, loading, dist), loading, dist)


def own_corpus(write: Callable[[Path], None], stack: ExitStack) -> str:
    """A folder that `write` has filled. Each rank has one, since ranks may share no disk."""
    folder = stack.enter_context(TemporaryDirectory(prefix="paceline-corpus-"))
    write(Path(folder))
    return folder


def num_own_tokens(loading: Loading, dist: Dist) -> int:
    """Size of a corpus of our own."""
    return NUM_OWN_BATCHES * dist.world_size * loading.batch_size * loading.seq_len + 1


def check_counts(loading: Loading) -> None:
    """Raise ValueError for a number that is too small."""
    for name, least in {"workers": 0, "prefetch": 1, "seq_len": 1, "batch_size": 1}.items():
        if (value := getattr(loading, name)) < least:
            raise ValueError(f"{name} is {value}; give at least {least}")


def batches(
    dataset: Dataset[Tensor], loading: Loading, dist: Dist, sampler: Any = None
) -> Iterator[Tensor]:
    """window_BT after window_BT by torch's DataLoader, moved to the rank's device."""
    loader = DataLoader(
        dataset,
        loading.batch_size,
        sampler=sampler,
        num_workers=loading.workers,
        prefetch_factor=loading.prefetch if loading.workers else None,
        pin_memory=dist.device.type == "cuda",
    )
    return (window_BT.to(dist.device, non_blocking=True) for window_BT in loader)


def read(windows_BT: Iterator[Tensor], loading: Loading, corpus: ExitStack) -> Iterator[Facts]:
    """The loop of reading alone: one batch for each step. Gives `corpus` back at the end."""
    with corpus:
        for window_BT in windows_BT:
            yield {"tokens": window_BT.numel() - len(window_BT)}
