"""One metric's way through its looks: what it has seen, and what it was found to be."""

from dataclasses import dataclass, field, replace

from service.domain import Rule, Verdict
from service.stats.looks import ALPHA_CHANGE, CHANGES, Look, Plan
from service.stats.spending import levels, sequential_p


def _no_evidence() -> dict[Verdict, float]:
    return dict.fromkeys(CHANGES, 1.0)


@dataclass(kw_only=True)
class Track:
    """Effects and looks so far, and the evidence for a change in either direction.

    `sequential` holds p-values valid at any look; they freeze at the decision. `adjusted` holds
    what they became within the metric's family when it was last weighed.
    """

    metric: str
    rule: Rule
    plan: Plan
    effects: list[float] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    sequential: dict[Verdict, float] = field(default_factory=_no_evidence)
    adjusted: dict[Verdict, float] = field(default_factory=_no_evidence)
    family_size: int = 1
    verdict: Verdict = Verdict.INCONCLUSIVE

    @property
    def is_open(self) -> bool:
        return self.verdict is Verdict.INCONCLUSIVE

    @property
    def is_at_look(self) -> bool:
        return len(self.effects) in self.plan.looks

    @property
    def decisive(self) -> Look:
        """The look that decided; the last one as long as none did."""
        return next((look for look in self.looks if look.verdict), self.looks[-1])

    def add(self, effect: float) -> None:
        """Take one more pair, and a look where one is due."""
        self.effects.append(effect)
        if not self.is_at_look:
            return
        self.looks.append(self.plan.look(self.effects))
        if not self.is_open:
            return
        for change in CHANGES:
            observed = [look.p_value(change) for look in self.looks]
            self.sequential[change] = sequential_p(self.plan.looks, observed)
        if self.plan.is_no_change(self.looks[-1]):
            self._settle(Verdict.NO_CHANGE)

    def weigh(self, change: Verdict, adjusted: float, family_size: int) -> None:
        """Become `change` if it is clear within the family and large enough to matter."""
        if self.verdict in CHANGES or not self.looks:
            return
        self.adjusted[change], self.family_size = adjusted, family_size
        is_large = self.plan.suspect(self.looks[-1]) is change
        if self.is_open and is_large and adjusted <= ALPHA_CHANGE:
            self._settle(change)

    def pairs_to_go(self) -> int | None:
        """About how many pairs are missing if mean and spread stay; None if more than planned."""
        if not self.is_open:
            return 0
        later = [n for n in self.plan.looks if n > len(self.effects)]
        if self.looks:
            later = [n for n in later if self._would_decide(n)]
        return later[0] - len(self.effects) if later else None

    def _would_decide(self, num_pairs: int) -> bool:
        now = self.plan.look(self.effects)
        then = self.plan.look_from(num_pairs, mean=now.mean, sd=now.sd)
        if change := self.plan.suspect(then):
            strict = levels(self.plan.looks, ALPHA_CHANGE / self.family_size)
            return then.p_value(change) <= strict[self.plan.looks.index(num_pairs)]
        return self.plan.is_no_change(then)

    def _settle(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.looks[-1] = replace(self.looks[-1], verdict=verdict)
