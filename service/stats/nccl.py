"""What NCCL, the library of collectives, chose in a trial, and in words that can be compared."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, order=True)
class Choice:
    """How one size of a collective was done; `collective` is empty where NCCL did not tell."""

    collective: str
    message_bytes: int
    algorithm: str
    protocol: str


@dataclass(frozen=True, kw_only=True)
class Library:
    """What its log tells; None or empty where it does not.

    `transports` counts connections by kind, such as P2P/CUMEM, SHM/direct, NET/IB/GDRDMA: a
    connection over the network is told by both ends. `plugin` is a network plugin that was loaded,
    `num_channels` the most of any communicator.
    """

    version: str | None
    network: str | None
    plugin: str | None
    num_channels: int | None
    transports: Mapping[str, int]
    choices: tuple[Choice, ...]


def facts(library: Library) -> dict[str, str]:
    """What is known, by name: `channels`: `24`; `AllReduce of 1,024 bytes`: `RING/LL128`."""
    named = {
        "NCCL": library.version,
        "network": library.network,
        "network plugin": library.plugin,
        "channels": None if library.num_channels is None else str(library.num_channels),
    }
    known = {name: value for name, value in named.items() if value is not None}
    known |= {
        f"connections by {transport}": str(number)
        for transport, number in sorted(library.transports.items())
    }
    ways: dict[str, list[str]] = defaultdict(list)
    for choice in library.choices:
        name = f"{choice.collective or 'collective'} of {choice.message_bytes:,} bytes"
        ways[name].append(f"{choice.algorithm}/{choice.protocol}")
    return known | {name: " or ".join(found) for name, found in ways.items()}


def changes(baseline: Mapping[str, str], candidate: Mapping[str, str]) -> list[str]:
    """The facts that differ, where both sides told any: `channels: 24 -> 16`."""
    if not (baseline and candidate):
        return []
    return [
        f"{name}: {baseline.get(name, 'none')} -> {candidate.get(name, 'none')}"
        for name in dict.fromkeys([*baseline, *candidate])
        if baseline.get(name) != candidate.get(name)
    ]
