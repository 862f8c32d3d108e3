"""Did this change regress? Sequential tests on pairs; docs/method.md tells why these.

    look -> no_change?   ±δ excluded, and |mean d| < δ/2    α = .05, each metric by itself
         -> a change?    clear, and |mean d| ≥ δ/2          α = .025 a direction, Holm
         -> more pairs

The first decision binds: later pairs refine the estimate, never the verdict. To invalidate a pair
is to call `compare` without it, which replays the looks.
"""

from collections.abc import Callable, Sequence
from typing import Any

from service.domain import Kind, Policy, Verdict
from service.metrics import Method, metric_named, ordered
from service.stats.comparison import MetricComparison, expected, is_settled, unmeasured
from service.stats.family import benjamini_hochberg, holm
from service.stats.looks import ALPHA_CHANGE, ALPHA_NO_CHANGE, CHANGES, Look, Plan, mean_of
from service.stats.pairs import PairEffects
from service.stats.reasons import explain
from service.stats.spending import levels
from service.stats.track import Track

__all__ = [
    "ALGORITHM",
    "VERSION",
    "Look",
    "MetricComparison",
    "compare",
    "is_settled",
    "unmeasured",
]

ALGORITHM = "paired-sequential"
VERSION = 1


def compare(
    pairs: Sequence[PairEffects], policy: Policy, *, num_cases: int = 1
) -> list[MetricComparison]:
    """Comparisons of the metrics found in `pairs`: the valid ones, in the order measured.

    `num_cases` are judged in the same run, each by a call of its own; they share its error rate in
    equal parts (Bonferroni over the cases, Holm within each).
    """
    if not pairs:
        nothing = "There is no valid pair yet."
        names = expected(policy, Kind.MEASURED)
        return unmeasured(Verdict.INCONCLUSIVE, nothing, policy, names)
    tracks = _tracks(pairs, policy)
    for pair in pairs:
        for track in tracks:
            if track.metric in pair.effects:
                track.add(pair.effects[track.metric])
        seen = [track for track in tracks if track.effects]
        _weigh([track for track in seen if track.rule.gate], holm, num_cases)
        _weigh([track for track in seen if not track.rule.gate], benjamini_hochberg, 1)
    return [_comparison(track) for track in tracks]


def _tracks(pairs: Sequence[PairEffects], policy: Policy) -> list[Track]:
    """A track for each metric to judge."""
    tracks = []
    for name in _measured(pairs):
        rule, judged = policy.rule(name), metric_named(name)
        if rule and judged.method is Method.PAIRED:
            plan = Plan(looks=policy.looks, worse_sign=judged.worse_sign, delta=rule.log_min_effect)
            tracks.append(Track(metric=name, rule=rule, plan=plan))
    return tracks


def _measured(pairs: Sequence[PairEffects]) -> list[str]:
    """Metrics found. Where one stands in for another, the first pair decides which of them counts
    in all, for the first verdict binds.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        for name in ordered(pair.effects):
            found.setdefault(metric_named(name).stands_in_for or name, name)
    return ordered(found.values())


def _weigh(
    family: list[Track], adjust: Callable[[Sequence[float]], list[float]], num_cases: int
) -> None:
    """At a look, let each metric of a family become a change, where that is clear within it.

    A metric decided earlier stays in the family with the evidence it had then. More looks could
    only have added to it, so the others are judged on the safe side.
    """
    if not any(track.is_at_look for track in family):
        return
    for change in CHANGES:
        adjusted = adjust([track.sequential[change] for track in family])
        for track, p in zip(family, adjusted, strict=True):
            track.weigh(change, min(1.0, num_cases * p), num_cases * len(family))


def _comparison(track: Track) -> MetricComparison:
    now = track.plan.look(track.effects) if track.looks else None
    return MetricComparison(
        metric=track.metric,
        is_gating=track.rule.gate,
        min_effect=track.rule.min_effect,
        verdict=track.verdict,
        effect=mean_of(track.effects),
        low=now.low if now else None,
        high=now.high if now else None,
        num_pairs=len(track.effects),
        decided_at=None if track.is_open else track.decisive.num_pairs,
        looks=tuple(track.looks),
        reasons=explain(track),
        parameters=_parameters(track),
        pairs_to_go=track.pairs_to_go(),
        q=None if track.rule.gate else min(1.0, 2 * min(track.adjusted.values())),
    )


def _parameters(track: Track) -> dict[str, Any]:
    """What the verdict depends on besides the pairs."""
    looks = track.plan.looks
    return {
        "algorithm": ALGORITHM,
        "version": VERSION,
        "min_effect": track.rule.min_effect,
        "alpha_change": ALPHA_CHANGE,
        "alpha_no_change": ALPHA_NO_CHANGE,
        "looks": list(looks),
        "levels_change": list(levels(looks, ALPHA_CHANGE)) if looks else [],
        "levels_no_change": list(levels(looks, ALPHA_NO_CHANGE)) if looks else [],
        "family_size": track.family_size,
    }
