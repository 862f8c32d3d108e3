"""The pipeline bubble: what share of a step ranks wait for each other, if every pass of a stage
takes its unit time.

    rank 0  F F F . . B B . B B . B B       3 microbatches of 1F1B on 2 ranks: F takes 1, B takes 2
    rank 1  . F B B F B B F B B . . .
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from torch.distributed.pipelining.schedules import (
    PipelineScheduleMulti,
    Schedule1F1B,
    get_schedule_class,
)

# Forward; backward; or this in two parts, the gradients of inputs and later those of weights, which
# nobody waits for (arXiv:2401.10241, section 2).
_UNITS = {"F": 1, "B": 2, "I": 1, "W": 1}

Pass = tuple[str, int, int]  # its kind, stage and microbatch


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Unit times that a step takes, and in how many of them each rank works."""

    units: int
    busy: tuple[int, ...]

    @property
    def idle(self) -> tuple[int, ...]:
        """In how many each rank waits, before its first pass and after its last one too."""
        return tuple(self.units - busy for busy in self.busy)

    @property
    def bubble_ratio(self) -> float:
        """Idle share of the time of all ranks.

        With p ranks and m microbatches it is (p - 1) / (m + p - 1) for GPipe (arXiv:1811.06965,
        section 2.3) and 1F1B, (p - 1) / (v m + p - 1) where v stages of a rank interleave
        (arXiv:2104.04473, section 2.2; the paper divides by the busy time).
        """
        return sum(self.idle) / (self.units * len(self.busy))


def timeline(order: Sequence[Sequence[Pass]]) -> Timeline:
    """When ranks work that take their passes in order, each once those that it needs have ended.

    Sending takes no time. Raises ValueError for an order in which passes wait for ever.
    """
    waiting = [deque(passes) for passes in order]
    busy = tuple(sum(_UNITS[kind] for kind, _, _ in passes) for passes in order)
    last = max(stage for passes in order for _, stage, _ in passes)
    free = [0] * len(order)  # since when a rank has had nothing to do
    ended: dict[Pass, int] = {}
    while any(waiting):
        num_ended = len(ended)
        for rank, passes in enumerate(waiting):
            while passes and (needed := _needs(*passes[0], last)) <= ended.keys():
                kind, stage, microbatch = passes.popleft()
                free[rank] = max([free[rank], *(ended[need] for need in needed)]) + _UNITS[kind]
                ended["I" if kind == "B" else kind, stage, microbatch] = free[rank]
        if len(ended) == num_ended:
            raise ValueError(f"passes wait for ever: {_stuck(waiting)}")
    return Timeline(units=max(free), busy=busy)


def order_of(schedule: str, size: int, microbatches: int) -> list[list[Pass]]:
    """The passes of each of so many ranks, as torch's schedule of that name has them.

    Raises ValueError for a number of microbatches that it does not take.
    """
    kind = get_schedule_class(schedule)
    if kind is Schedule1F1B:
        return [_one_and_one(rank, size, microbatches) for rank in range(size)]
    per_rank = 2 if issubclass(kind, PipelineScheduleMulti) else 1
    stage = SimpleNamespace(num_stages=per_rank * size, group_size=size, group_rank=0, submod=None)
    stages = [stage] * per_rank if per_rank > 1 else stage
    made: Any = kind(stages, microbatches)  # type: ignore[arg-type]
    return [list(_passes(made.pipeline_order[rank])) for rank in range(size)]


def _one_and_one(rank: int, size: int, microbatches: int) -> list[Pass]:
    """1F1B as torch runs it. The list that it gives leaves out the last rank's first forward."""
    ahead = min(size - rank, microbatches)
    passes = [("F", rank, number) for number in range(ahead)]
    for number in range(microbatches):
        passes.append(("B", rank, number))
        if number + ahead < microbatches:
            passes.append(("F", rank, number + ahead))
    return passes


def _passes(actions: Iterable[Any]) -> Iterator[Pass]:
    """Those of torch's actions that compute; two that it overlaps follow each other."""
    for action in actions:
        if action is None:
            continue
        for one in action.sub_actions or (action,):
            if one.computation_type.value in _UNITS:
                yield one.computation_type.value, one.stage_index, one.microbatch_index


def _needs(kind: str, stage: int, microbatch: int, last: int) -> set[Pass]:
    """What must have ended before; a whole backward pass ends with the gradients of inputs."""
    if kind == "F":
        return {("F", stage - 1, microbatch)} if stage else set()
    if kind == "W":
        return {("I", stage, microbatch)}
    gradients = {("I", stage + 1, microbatch)} if stage < last else set()
    return {("F", stage, microbatch)} | gradients


def _stuck(waiting: Sequence[Sequence[Pass]]) -> str:
    """`rank 0 before B of stage 0, microbatch 1`, of each rank that does not go on."""
    nexts = [(rank, *passes[0]) for rank, passes in enumerate(waiting) if passes]
    return "; ".join(
        f"rank {rank} before {kind} of stage {stage}, microbatch {microbatch}"
        for rank, kind, stage, microbatch in nexts
    )
