"""Solo trials, and pairs as separate launches; lockstep.py has the pairs that run together."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType

from runners.bench import Bench
from runners.trial import Trial
from service.domain import Arrangement, Case, Failure, FailureReason, Role
from service.usecases.recording import PairResult, TrialResult


def first_side(position: int) -> Role:
    """The side that the pair at `position` starts first: AB, BA, BA, AB, AB, BA ..."""
    return Role.BASELINE if position % 4 in (0, 3) else Role.CANDIDATE


def in_order(first: Role) -> tuple[Role, Role]:
    """Both sides, `first` first."""
    second = Role.CANDIDATE if first is Role.BASELINE else Role.BASELINE
    return first, second


@contextmanager
def alone(
    bench: Bench, case: Case, role: Role, variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Trial]:
    """A trial that has ended, with nothing else alive beside it; its files are gone afterwards."""
    bench.sides[role].restore()
    with bench.scratch() as folder:
        trial = Trial(bench, case, role, folder, variables)
        try:
            trial.wait()
            yield trial
        finally:
            trial.cancel()


def measure_solo(bench: Bench, case: Case, role: Role) -> TrialResult:
    """A solo trial."""
    with alone(bench, case, role) as trial:
        return trial.result()


def measure_abba(bench: Bench, case: Case, first: Role) -> PairResult:
    """A pair of separate launches, one after the other."""
    started_at = datetime.now(UTC)
    trials = {role: measure_solo(bench, case, role) for role in in_order(first)}
    return as_pair(Arrangement.ABBA, first, 1, started_at, trials)


def as_pair(
    arrangement: Arrangement,
    first: Role,
    steps_per_turn: int,
    started_at: datetime,
    trials: Mapping[Role, TrialResult],
) -> PairResult:
    """The pair of two trials, invalid where one of them failed.

    The side whose own failure ended the pair explains it, not the one that was let go.
    """
    failures = [(role, failure) for role in Role if (failure := trials[role].failure) is not None]
    failures.sort(key=lambda item: item[1].reason is FailureReason.PEER_FAILED)
    invalid = None
    if failures:
        role, failure = failures[0]
        invalid = Failure(reason=failure.reason, detail=f"{role}: {failure.detail}")
    return PairResult(
        arrangement=arrangement,
        first=first,
        steps_per_turn=steps_per_turn,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        trials=trials,
        invalid=invalid,
    )
