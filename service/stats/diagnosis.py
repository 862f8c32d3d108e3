"""Why a candidate is slower: what a profiled trial of each side tells together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.domain import Role
from service.stats.breakdown import Breakdown
from service.stats.cause import cause
from service.stats.difference import Difference, difference, shortened
from service.stats.words import milliseconds

NUM_OPERATORS = 30  # more than anybody reads


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One side's profiled trial: where its ranks' time went, and what its library chose."""

    ranks: Sequence[Breakdown]
    library: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Exactly one of `cause` and `reason` is set: a sentence, or why there is none.

    `library` holds what the library of collectives chose, by side; empty where it told nothing.
    """

    cause: str | None = None
    reason: str | None = None
    difference: Difference | None = None
    library: Mapping[Role, Mapping[str, str]] = field(default_factory=dict)


def diagnose(baseline: Profile, candidate: Profile) -> Diagnosis:
    """The diagnosis of a candidate that the pairs found slower.

    Raises ValueError for profiles that cannot be compared.
    """
    found = difference(baseline.ranks, candidate.ranks)
    library = {Role.BASELINE: baseline.library, Role.CANDIDATE: candidate.library}
    known = Diagnosis(difference=shortened(found, NUM_OPERATORS), library=library)
    if found.mean.delta_s > 0:
        return replace(known, cause=cause(found))
    reason = (
        "The profiled steps do not show it: the candidate's took "
        f"{milliseconds(-found.mean.delta_s)} less. What slows it down happens in other steps, or "
        "is less than steps vary."
    )
    return replace(known, reason=reason)
