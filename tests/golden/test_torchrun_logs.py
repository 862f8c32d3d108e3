"""Real failure logs of torchrun, beside what they mean."""

from pathlib import Path

import pytest

from runners.ending import failure, last_words
from runners.guard import Ended, Outcome
from runners.parsers.torchrun import Parsed, parse
from service.domain import FailureReason
from tests.conftest import missing

OWN = Path(__file__).parent / "torchrun"
SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "sample_logs" / "torchrun_failures"

# rank, exit code, reason and what the detail must say
MEANING = {
    "exit_3": (1, 3, FailureReason.CRASHED, "Rank 1 exited with 3."),
    "exception": (1, 1, FailureReason.CRASHED, "ValueError: the loss went away"),
    "sigkill": (1, -9, FailureReason.KILLED, "Rank 1 was killed by signal 9"),
    "sigsegv": (1, -11, FailureReason.CRASHED, "Rank 1 was killed by signal 11."),
    "out_of_memory_python": (1, 1, FailureReason.OUT_OF_MEMORY, "Rank 1 ran out of memory"),
    "out_of_memory_torch": (1, 1, FailureReason.OUT_OF_MEMORY, "Rank 1 ran out of memory"),
    "out_of_memory_cuda": (1, 1, FailureReason.OUT_OF_MEMORY, "Rank 1 ran out of memory"),
    "retried_memory_error": (1, 4, FailureReason.CRASHED, "Rank 1 exited with 4."),
}
SAMPLE_MEANING = {
    "trn_exit3": (1, 3, FailureReason.CRASHED, "Rank 1 exited with 3."),
    "trn_raise": (1, 1, FailureReason.CRASHED, "ValueError: boom on rank 1"),
    "trn_record": (1, 1, FailureReason.CRASHED, "ValueError: boom on rank 1"),
    "trn_segv": (1, -11, FailureReason.CRASHED, "signal 11"),
    "trn_oom": (1, -9, FailureReason.KILLED, "signal 9"),
    "trn_hang": (0, 1, FailureReason.CRASHED, "Timed out waiting 8000ms"),
    "kill_INT": (None, None, FailureReason.CRASHED, "KeyboardInterrupt"),
    "kill_TERM": (None, None, FailureReason.CRASHED, "got signal: 15"),
    "kill_KILL": (None, None, FailureReason.CRASHED, "Timed out waiting 8000ms"),
}


def check(
    log: Path, rank: int | None, exit_code: int | None, reason: FailureReason, words: str
) -> None:
    text = log.read_text(errors="replace")
    is_out_of_memory = reason is FailureReason.OUT_OF_MEMORY
    assert parse(text) == Parsed(rank=rank, exit_code=exit_code, is_out_of_memory=is_out_of_memory)
    found = failure(Outcome(ended=Ended.EXITED, exit_code=1), text, parse(text))
    assert found is not None
    assert found.reason is reason
    assert words in found.detail
    assert "Connection closed by peer" not in found.detail


def test_every_recorded_log_has_a_meaning():
    assert {log.stem for log in OWN.glob("*.log")} == {*MEANING, "ok"}


@pytest.mark.parametrize("name", sorted(MEANING))
def test_logs_of_this_version_of_torch(name: str):
    check(OWN / f"{name}.log", *MEANING[name])


def test_a_good_end_leaves_no_report():
    assert parse((OWN / "ok.log").read_text()).rank is None


@pytest.mark.parametrize("name", sorted(SAMPLE_MEANING))
def test_logs_of_the_shared_collection(name: str):
    if not SAMPLES.is_dir():
        missing(f"the sample logs in {SAMPLES.parent.name}/{SAMPLES.name}")
    check(SAMPLES / f"{name}.log", *SAMPLE_MEANING[name])


def test_an_exception_behind_two_prefixes_is_found():
    if not SAMPLES.is_dir():
        missing(f"the sample logs in {SAMPLES.parent.name}/{SAMPLES.name}")
    text = (SAMPLES / "trn_raise.log").read_text()
    assert last_words(text, 1) == "ValueError: boom on rank 1"
    assert last_words(text, 0).startswith("RuntimeError: ")
