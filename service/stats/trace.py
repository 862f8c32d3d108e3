"""What a profiled rank did, as events: the input of a breakdown, whatever program recorded it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an event is."""

    STEP = "step"
    OPERATOR = "operator"
    DATA = "data"  # the loader is asked for the next batch
    COLLECTIVE = "collective"  # data move between ranks, or wait for them
    ISSUE = "issue"  # the host hands a collective over
    KERNEL = "kernel"  # work of a device, copies too
    RUNTIME = "runtime"  # the host calls the device's library


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that began and ended. Events of one lane, a thread or stream, nest."""

    kind: Kind
    name: str
    start_ns: int
    end_ns: int
    lane: str
    device: int | None = None  # None on the host
    shapes: str = ""  # of an operator's tensors: `512x64, 64x64`
    correlation: int | None = None  # the same for a kernel and the call that launched it


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The events of one rank, in the order of their start."""

    rank: int | None
    events: tuple[Event, ...]
    software: Mapping[str, str]  # such as the version of NCCL

    @property
    def steps(self) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.kind is Kind.STEP)

    @property
    def has_device(self) -> bool:
        return any(event.device is not None for event in self.events)
