"""Static cases: planned, counted in one trial a side, judged. Launching is faked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runners.bench import Bench
from service.db.session import Sessions
from service.domain import Case, FailureReason, Kind, Policy, Role, Rule, Verdict
from service.usecases.recording import TrialResult
from tests import factories
from tests.conftest import on_sqlite
from tests.integration.lab import Lab, reasons, verdicts
from tests.integration.measured import POLICY, pairs_with

pytestmark = on_sqlite

FLOPS, GATHERS = "static_flops", "static_num_collectives@all_gather"
EIGHT_B = factories.case(
    "8b", script=None, workload="training.fsdp", kind=Kind.STATIC, world_size=64
)


class Counting(Lab):
    """A lab whose solo trials count these."""

    counts: dict[Role, dict[str, float]]
    operators: dict[Role, dict[str, int]]

    def measure_solo(self, bench: Bench, case: Case, role: Role) -> TrialResult:
        result = super().measure_solo(bench, case, role)
        if result.failure is not None:
            return result
        samples = {name: np.array([count]) for name, count in self.counts[role].items()}
        operators = self.operators[role]
        return replace(result, samples=samples, operators=operators, num_warmup_steps=0)


@pytest.fixture
def lab(sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting(sessions, tmp_path, monkeypatch)
    made.counts = {role: {FLOPS: 2**50, GATHERS: 65} for role in Role}
    made.operators = {role: {"aten.mm": 87} for role in Role}
    return made


def test_equal_counts_pass_after_one_trial_a_side(lab: Counting):
    run = lab.measure(lab.job(cases=[EIGHT_B]))
    assert run.verdict is Verdict.NO_CHANGE
    assert run.headline == "No change: every gating count is the same on both sides."
    assert lab.solos == list(Role)
    assert not run.pairs
    assert {item.metric for item in run.comparisons} == {FLOPS, GATHERS}, "and no step time"


def test_one_collective_more_is_a_regression_that_names_its_operator(lab: Counting):
    lab.counts[Role.CANDIDATE][GATHERS] = 66
    lab.operators[Role.CANDIDATE] = {"aten.mm": 88}
    run = lab.measure(lab.job(cases=[EIGHT_B]))
    assert run.verdict is Verdict.REGRESSION
    assert run.headline == (
        "Regression: 8b: Collectives, all gather: 65 before, 66 now (+1, +1.5 %)."
    )
    found = {item.metric: item for item in run.comparisons}
    assert (found[GATHERS].baseline_value, found[GATHERS].candidate_value) == (65, 66)
    assert found[FLOPS].verdict is Verdict.NO_CHANGE
    assert "aten.mm: 87 -> 88" in reasons(run)


def test_a_schedule_that_idles_more_is_a_regression(lab: Counting):
    for role, bubble in zip(Role, (3 / 19, 3 / 11), strict=True):
        lab.counts[role]["static_bubble_ratio"] = bubble
    run = lab.measure(lab.job(cases=[EIGHT_B]))
    assert run.headline == (
        "Regression: 8b: Pipeline bubble: 0.1579 before, 0.2727 now (+0.1148, +72.7 %)."
    )


def test_a_kind_of_collective_that_is_new_has_a_value_on_both_sides(lab: Counting):
    del lab.counts[Role.BASELINE][GATHERS]
    run = lab.measure(lab.job(cases=[EIGHT_B]))
    found = {item.metric: item for item in run.comparisons}[GATHERS]
    assert (found.baseline_value, found.candidate_value, found.effect) == (0, 65, None)
    assert "0 before, 65 now (+65)" in run.headline


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict"),
    [
        (FailureReason.CRASHED, None, Verdict.MISSING),
        (FailureReason.CRASHED, FailureReason.CRASHED, Verdict.MISSING),
        (None, FailureReason.CRASHED, Verdict.BROKEN),
        (None, FailureReason.DEADLINE, Verdict.BROKEN),
        (None, FailureReason.BAD_RECORDS, Verdict.INVALID),
    ],
)
def test_what_a_failure_means(
    lab: Counting,
    baseline: FailureReason | None,
    candidate: FailureReason | None,
    verdict: Verdict,
):
    lab.solo = {Role.BASELINE: baseline, Role.CANDIDATE: candidate}
    run = lab.measure(lab.job(cases=[EIGHT_B]))
    assert verdicts(run) == {verdict}
    assert {item.metric for item in run.comparisons} == {FLOPS}
    assert "Rank 1 exited with 3." in reasons(run)


def test_a_measured_case_beside_it_keeps_its_error_rate_and_its_metrics(lab: Counting):
    lab.pairs += pairs_with(0.1, 3)
    policy = Policy(metrics={**POLICY.metrics, GATHERS: Rule(min_effect=0.0, gate=True)})
    run = lab.measure(lab.job(cases=[factories.case(), EIGHT_B], policy=policy))
    found = {(item.case, item.metric): item for item in run.comparisons}
    assert {metric for case, metric in found if case == "8b"} == {FLOPS, GATHERS}
    assert not any(m.startswith("static_") for case, m in found if case == "tinylm")
    assert "metrics judged at once" in " ".join(found["tinylm", "step_time_s"].reasons)
    assert found["tinylm", "step_time_s"].parameters["family_size"] == 2, "of one case"


def test_a_spent_budget_leaves_it_out(lab: Counting):
    lab.pairs += pairs_with(0.0, 20)
    policy = replace(POLICY, budget_device_hours=55 / 3600)
    run = lab.measure(lab.job(cases=[factories.case(), EIGHT_B], policy=policy))
    assert {item.verdict for item in run.comparisons if item.case == "8b"} == {Verdict.MISSING}
    assert "budget" in reasons(run)
