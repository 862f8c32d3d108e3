# ruff: noqa: E402  (torch is an extra)
"""Loaders give the tokens of the corpus, each rank and worker its own, for ever."""

import tempfile
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.unit.test_workloads_dist import GPU, FakeCuda
from workloads.corpus import encoded, shards, tokens_at, write_tar_files, write_token_files
from workloads.data import memmap, tar, wait
from workloads.dist import Dist, Stopwatch
from workloads.loading import Documents, Draw, Loading, Windows, windows
from workloads.recipe import Training
from workloads.training import single

SEQ_LEN = 64
VOCAB_SIZE = 32_000
NUM_TOKENS = 10_001


def ranks(world_size: int = 1, rank: int = 0) -> Dist:
    return Dist(
        rank=rank,
        world_size=world_size,
        device=torch.device("cpu"),
        device_name="cpu",
        init_time_s=0.0,
    )


def starts(found: Any) -> list[int]:
    """Where windows begin in our own corpus. Raises KeyError for one that is not of it."""
    whole = tokens_at(0, NUM_TOKENS, VOCAB_SIZE).unfold(0, SEQ_LEN + 1, 1).tolist()
    places = {tuple(window): start for start, window in enumerate(whole)}
    return [places[tuple(window.tolist())] for window in found]


def token_files(folder: Path) -> Windows:
    write_token_files(folder, NUM_TOKENS, VOCAB_SIZE, "uint16")
    return Windows(shards(str(folder), ".bin"), "uint16", SEQ_LEN)


def test_windows_lie_side_by_side_within_each_file(tmp_path: Path) -> None:
    dataset = token_files(tmp_path)
    a_file = range(0, 2501 - SEQ_LEN, SEQ_LEN)
    expected = [file + start for file in (0, 2501, 5002, 7503) for start in a_file]
    assert starts(dataset[i] for i in range(len(dataset))) == expected


def test_a_wrong_token_would_be_noticed(tmp_path: Path) -> None:
    dataset = token_files(tmp_path)
    file = tmp_path / "00002.bin"
    file.write_bytes(file.read_bytes()[:-100] + encoded(torch.arange(50), "uint16"))
    with pytest.raises(KeyError):
        starts(dataset[i] for i in range(len(dataset)))


def test_ranks_draw_windows_of_their_own_the_same_in_every_launch() -> None:
    drawn = [list(islice(Draw(10, ranks(2, rank), seed=1), 200)) for rank in (0, 1)]
    assert [set(indices) for indices in drawn] == [{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}]
    assert drawn[0] == list(islice(Draw(10, ranks(2, 0), seed=1), 200))
    assert drawn[0] != list(islice(Draw(10, ranks(2, 0), seed=2), 200))


def test_documents_are_packed_across_their_borders() -> None:
    tokens = torch.arange(11)
    packed = windows(tokens.split([2, 5, 1, 3]), seq_len=4)
    assert [window.tolist() for window in packed] == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]


def test_readers_share_the_files_of_an_epoch() -> None:
    files = [f"{number}.tar" for number in range(9)]
    dataset = Documents(files, Loading(workers=2), ranks(2))
    epochs = [[dataset.share(reader, epoch) for reader in range(4)] for epoch in (0, 1)]
    assert [len(share) for share in epochs[0]] == [3, 2, 2, 2]
    assert all(sorted(chain(*shares)) == files for shares in epochs)
    assert epochs[0] != epochs[1]


def test_a_reader_goes_on_with_the_next_file_and_the_next_epoch(tmp_path: Path) -> None:
    write_tar_files(tmp_path, 2, 1000, VOCAB_SIZE, "uint16")
    dataset = Documents(shards(str(tmp_path), ".tar"), Loading(seq_len=SEQ_LEN), ranks(1))
    found = starts(islice(dataset, 15))  # 0 to 499 and 500 to 999, in some order
    assert found[0] in (0, 500)
    assert set(found) <= set(range(1000 - SEQ_LEN))


@pytest.mark.parametrize(
    ("workload", "options", "words"),
    [
        (memmap, {"seq_len": 3000}, "has 0 windows of seq_len 3000, too few for 2 ranks"),
        (memmap, {"vocab_size": 1000}, "not below vocab_size 1000; is dtype"),
        (memmap, {"path": "/nowhere"}, "path /nowhere is no folder"),
        (memmap, {"seq_len": 0}, "seq_len is 0; give at least 1"),
        (memmap, {"workers": -1}, "workers is -1; give at least 0"),
        (memmap, {"path": "", "vocab_size": 100_000}, "dtype uint16 is too small"),
        (tar, {"workers": 2}, r"3 \*.tar files, too few for 4 readers"),
        (tar, {"vocab_size": 1000}, "not below vocab_size 1000; is dtype"),
        (tar, {"prefetch": 0}, "prefetch is 0; give at least 1"),
        (wait, {"model": "debug"}, "not below vocab_size 256; is dtype"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, workload: ModuleType, options: dict[str, Any], words: str
) -> None:
    token_files(tmp_path)
    write_tar_files(tmp_path, 3, NUM_TOKENS, VOCAB_SIZE, "uint16")
    with pytest.raises(ValueError, match=words):
        workload.run(workload.Config(**{"path": str(tmp_path), **options}), ranks(2))


@pytest.mark.parametrize("workload", [memmap, tar])
def test_a_step_reads_one_batch_and_our_own_corpus_goes_at_the_end(
    workload: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    steps = workload.run(workload.Config(seq_len=SEQ_LEN, batch_size=3), ranks(2))
    assert [next(steps) for _ in range(50)] == [{"tokens": 3 * SEQ_LEN}] * 50
    assert len(list(tmp_path.iterdir())) == 1
    del steps
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_a_corpus_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="too small"):
        memmap.run(memmap.Config(vocab_size=100_000), ranks())
    assert not list(tmp_path.iterdir())


def test_a_step_waits_for_its_batch_and_for_nothing_else() -> None:
    cuda = FakeCuda()
    config = wait.Config(model="debug", seq_len=8, batch_size=2)

    def loader() -> Any:
        while True:
            cuda.launch()  # the clock goes on 5 ms, as in an upload that the device waits for
            yield torch.randint(256, (2, 9))

    def compute(*_: Any) -> None:
        cuda.launch()

    training = Training(config, ranks(), single.parallelize)
    training.model.register_forward_hook(compute)
    steps = wait.steps(training, loader(), Stopwatch(GPU, cuda), ExitStack())
    facts = [next(steps) for _ in range(3)]
    assert cuda.num_synchronized == 0
    cuda.synchronize()
    assert [fact["data_wait_s"].item() for fact in facts] == pytest.approx([0.005] * 3)
    assert [fact["tokens"] for fact in facts] == [16] * 3
