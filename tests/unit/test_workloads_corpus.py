# ruff: noqa: E402  (torch is an extra)
"""Tokens come back from files as they were written, and files that are no corpus are refused."""

import sys
import tarfile
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from workloads.corpus import (
    check_tokens,
    num_tokens,
    parts,
    read_documents,
    read_tokens,
    shards,
    tokens_at,
    write_tar_files,
    write_token_files,
)

VOCAB_SIZE = 32_000


@pytest.fixture
def token_files(tmp_path: Path) -> Path:
    write_token_files(tmp_path, 1001, VOCAB_SIZE, "uint16")
    return tmp_path


@pytest.fixture
def tar_files(tmp_path: Path) -> Path:
    write_tar_files(tmp_path, 3, 10_000, VOCAB_SIZE, "uint16")
    return tmp_path


def test_a_token_is_a_function_of_its_position() -> None:
    whole = tokens_at(0, 100_000, VOCAB_SIZE)
    assert torch.equal(whole[70_000:70_100], tokens_at(70_000, 70_100, VOCAB_SIZE))
    assert 0 <= int(whole.min()) < int(whole.max()) < VOCAB_SIZE
    assert float((whole < VOCAB_SIZE // 8).float().mean()) == pytest.approx(0.5, abs=0.01)


def test_the_largest_vocabulary_overflows_nothing() -> None:
    assert int(tokens_at(0, 10_000, 131_072).min()) >= 0
    assert int(tokens_at(0, 10_000, 131_072).max()) < 131_072


def test_the_last_shard_is_partial(token_files: Path) -> None:
    files = shards(str(token_files), ".bin")
    assert [num_tokens(file, "uint16") for file in files] == [251, 251, 251, 248]
    assert [len(part) for part in parts(9, 4)] == [3, 3, 3]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_any_tokens_of_a_file_can_be_read(token_files: Path, scheme: str) -> None:
    *_, last = shards(f"{scheme}{token_files}", ".bin")
    assert last.startswith(scheme)
    assert torch.equal(read_tokens(last, "uint16", 7, 20), tokens_at(760, 780, VOCAB_SIZE))


def test_large_vocabularies_take_uint32(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dtype uint16 is too small for vocab_size 128256"):
        write_token_files(tmp_path, 1001, 128_256, "uint16")
    write_token_files(tmp_path, 1001, 128_256, "uint32")
    first, *_ = shards(str(tmp_path), ".bin")
    assert torch.equal(read_tokens(first, "uint32", 0, 251), tokens_at(0, 251, 128_256))


def test_uint16_tokens_read_as_uint32_are_noticed(token_files: Path) -> None:
    last = shards(str(token_files), ".bin")[-1]
    with pytest.raises(ValueError, match="not below vocab_size 32000; is dtype"):
        check_tokens(read_tokens(last, "uint32", 0, 20), VOCAB_SIZE, last)


def test_half_a_token_is_refused(token_files: Path) -> None:
    first, *_ = shards(str(token_files), ".bin")
    with pytest.raises(ValueError, match="502 bytes, which is no number of uint32 tokens"):
        num_tokens(first, "uint32")


def test_a_folder_that_is_none_and_one_without_shards(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere is no folder; give one"):
        shards(str(tmp_path / "nowhere"), ".bin")
    with pytest.raises(ValueError, match=r"holds no \*.bin files"):
        shards(str(tmp_path), ".bin")
    with pytest.raises(ValueError, match=r"holds no \*.bin files"):
        shards(f"file://{tmp_path}", ".bin")


def test_a_url_that_this_side_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"nothing://x needs fsspec and its package .* install"):
        shards("nothing://x", ".bin")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ValueError, match="memory://x needs fsspec"):
        shards("memory://x", ".bin")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_documents_come_in_the_order_of_the_tar_file(tar_files: Path, scheme: str) -> None:
    files = shards(f"{scheme}{tar_files}", ".tar")
    documents = [document for file in files for document in read_documents(file, "uint16")]
    assert [len(document) for document in documents[:5]] == [700, 90, 1300, 700, 90]
    assert torch.equal(torch.cat(documents), tokens_at(0, 10_000, VOCAB_SIZE))


def test_a_tar_file_that_breaks_off_is_refused(tar_files: Path) -> None:
    first = Path(shards(str(tar_files), ".tar")[0])
    first.write_bytes(first.read_bytes()[:3000])
    with pytest.raises(tarfile.ReadError, match="unexpected end of data"):
        list(read_documents(str(first), "uint16"))


def test_a_tar_file_without_documents_or_with_half_a_token_is_refused(tmp_path: Path) -> None:
    tarfile.open(tmp_path / "none.tar", "w").close()
    with pytest.raises(ValueError, match=r"none.tar holds no documents; remove it"):
        list(read_documents(str(tmp_path / "none.tar"), "uint16"))
    (tmp_path / "odd.bin").write_bytes(b"odd")
    with tarfile.open(tmp_path / "odd.tar", "w") as shard:
        shard.add(tmp_path / "odd.bin", "odd.bin")
    with pytest.raises(ValueError, match=r"odd.tar, odd.bin, has 3 bytes"):
        list(read_documents(str(tmp_path / "odd.tar"), "uint16"))
