"""Why a metric was flagged, or was not, in sentences with their numbers."""

import math

from service.domain import Verdict
from service.metrics import metric_named
from service.stats.looks import ALPHA_CHANGE, mean_of
from service.stats.track import Track
from service.stats.words import count, fraction_percent, listed, p_value, percent


def explain(track: Track) -> tuple[str, ...]:
    """Reasons for what a track was found to be, or for why it is still open."""
    if not track.looks:
        return (_too_few(track),)
    return (_observed(track), _on_change(track), _on_no_change(track), *_outlook(track))


def _too_few(track: Track) -> str:
    measured = count(len(track.effects), "valid pair")
    if not track.plan.looks:
        return f"{measured}; the policy allows too few pairs for a first look."
    return f"{measured} so far; the first look is after {track.plan.looks[0]}."


def _observed(track: Track) -> str:
    look = track.decisive
    return (
        f"{metric_named(track.metric).title} {percent(look.mean)} over {look.num_pairs} pairs: "
        f"95 % interval {percent(look.low)} to {percent(look.high)}, "
        f"SD of a pair {fraction_percent(look.sd)}."
    )


def _on_change(track: Track) -> str:
    """On a change in the direction of the mean."""
    look = track.decisive
    is_worse = track.plan.worse_sign * look.mean >= 0
    change = Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT
    if track.plan.suspect(look) is None:
        return (
            f"Not {_named(change)}: the mean is within ±{_half(track)}, half of the smallest "
            f"effect that matters ({fraction_percent(track.rule.min_effect)})."
        )
    p = p_value(track.adjusted[change])
    if track.verdict is change:
        return (
            f"{_named(change).capitalize()}: at least {_half(track)}, and chance alone does this "
            f"with {p} {_paid(track)}; the limit is {ALPHA_CHANGE}."
        )
    return f"Not called {_named(change)}: {p} {_paid(track)}, above the limit of {ALPHA_CHANGE}."


def _on_no_change(track: Track) -> str:
    look = track.decisive
    test = f"{p_value(look.p_no_change)}, level of this look {look.level_no_change:.2g}"
    delta = f"a change of {fraction_percent(track.rule.min_effect)} either way"
    if track.verdict is Verdict.NO_CHANGE:
        return f"No change: {delta} is excluded ({test})."
    if track.plan.suspect(look):
        return f"Not called unchanged: the mean is not within ±{_half(track)}."
    return f"Not called unchanged: {delta} is not excluded ({test})."


def _outlook(track: Track) -> list[str]:
    """What later pairs said, or could say."""
    num_pairs, decided = len(track.effects), track.decisive.num_pairs
    if not track.is_open:
        if num_pairs == decided:
            return []
        mean = percent(mean_of(track.effects))
        return [f"Decided after {decided} pairs; over all {num_pairs} the mean is {mean}."]
    if num_pairs >= track.plan.looks[-1]:
        return [f"The policy's {track.plan.looks[-1]} pairs are used up."]
    to_go = track.pairs_to_go()
    if to_go is None:
        return [f"If the spread stays, {track.plan.looks[-1]} pairs, the policy's, will not do."]
    return [f"If the spread stays, about {count(to_go, 'more pair')} will decide."]


def _named(change: Verdict) -> str:
    return "a regression" if change is Verdict.REGRESSION else "an improvement"


def _half(track: Track) -> str:
    return fraction_percent(math.expm1(track.plan.delta / 2))


def _paid(track: Track) -> str:
    """What the p-value was adjusted for."""
    looked = [look.num_pairs for look in track.looks if look.num_pairs <= track.decisive.num_pairs]
    looks = f"after paying for the look{'s' if len(looked) > 1 else ''} at {listed(looked)} pairs"
    if track.family_size == 1:
        return looks
    return f"{looks} and for {track.family_size} metrics judged at once"
