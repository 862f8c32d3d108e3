"""Logs of NCCL with NCCL_DEBUG=INFO, after real ones, beside what they tell."""

from pathlib import Path

import pytest

from runners.parsers.nccl_debug import Choice, Parsed, parse
from tests.conftest import missing

OWN = Path(__file__).parent / "nccl"
SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "sample_logs" / "nccl_tests"


def choice(collective: str, message_bytes: int, algorithm: str, protocol: str) -> Choice:
    return Choice(
        collective=collective,
        message_bytes=message_bytes,
        algorithm=algorithm,
        protocol=protocol,
    )


MEANING = {
    "nvlink_2.27": Parsed(
        version="2.27.3+cuda12.9",
        network="Socket",
        plugin=None,
        num_channels=24,
        transports={"P2P/CUMEM/read": 4},
        choices=(
            choice("AllReduce", 4096, "TREE", "LL"),
            choice("AllReduce", 268435456, "NVLS", "SIMPLE"),
            choice("Broadcast", 32768, "RING", "SIMPLE"),
        ),
    ),
    "plugin_2.18": Parsed(
        version="2.18.5+cuda12.2",
        network="AWS Libfabric",
        plugin="AWS Libfabric",
        num_channels=8,
        transports={
            "NET/AWS Libfabric/GDRDMA": 2,
            "SHM/direct/direct": 1,
            "P2P/direct pointer": 1,
        },
        choices=(
            choice("", 1024, "TREE", "LL"),
            choice("AllGather", 37756928, "RING", "SIMPLE"),
            choice("AllReduce", 64, "9", "LL128"),
        ),
    ),
    "socket_2.10": Parsed(
        version="2.10.3+cuda11.4",
        network="Socket",
        plugin=None,
        num_channels=None,
        transports={"NET/Socket": 2, "P2P/IPC": 1},
        choices=(),
    ),
}
SILENT = Parsed(
    version=None, network=None, plugin=None, num_channels=None, transports={}, choices=()
)


def test_every_log_has_a_meaning():
    assert {log.stem for log in OWN.glob("*.log")} == MEANING.keys()


@pytest.mark.parametrize("name", sorted(MEANING))
def test_what_nccl_told(name: str):
    assert parse((OWN / f"{name}.log").read_text()) == MEANING[name]


@pytest.mark.parametrize("text", ["", "step 1 loss 5.5\n", "Using network of friends\n"])
def test_where_nccl_is_silent_nothing_is_claimed(text: str):
    assert parse(text) == SILENT


def test_a_log_of_the_shared_collection_tells_hardly_anything():
    if not SAMPLES.is_dir():
        missing(f"the sample logs in {SAMPLES.parent.name}/{SAMPLES.name}")
    text = (SAMPLES / "old_v2.10_allreduce_a100x8.txt").read_text()
    assert "NCCL INFO Launch mode Parallel" in text
    assert parse(text) == SILENT
