"""The words: case keys, policy, looks, severity, and what survives a trip through JSON."""

import json
import math
from dataclasses import asdict

import pytest

from service import domain
from service.domain import LOOKS, Arrangement, Kind, Policy, Rule, Status, Verdict
from service.metrics import METRICS, Method
from tests import factories


def test_the_name_of_a_case_is_not_part_of_its_key():
    assert factories.case(name="a").key == factories.case(name="b").key


@pytest.mark.parametrize(
    "other",
    [
        {"world_size": 4},
        {"arguments": ("--steps", "9")},
        {"script": "other.py"},
        {"threads_per_rank": 2},
        {"warmup_steps": 5},
        {"arrangement": Arrangement.ABBA},
        {"kind": Kind.STATIC},
    ],
)
def test_everything_else_is(other: dict[str, object]):
    assert factories.case().key != factories.case(**other).key


def test_the_time_limit_is_not_part_of_it():
    assert factories.case(timeout_s=60.0).key == factories.case(timeout_s=90.0).key


def test_the_key_of_a_measured_case_is_what_it_was_before_there_were_kinds():
    spec = asdict(factories.case())
    left = {name: spec[name] for name in spec if name not in ("name", "timeout_s", "kind")}
    assert factories.case().key == domain.content_hash(left)


def test_a_case_stored_before_there_were_kinds_is_measured():
    spec = asdict(factories.case())
    del spec["kind"]
    assert domain.case_from_json(spec) == factories.case()


@pytest.mark.parametrize(("kind", "num_processes"), [(Kind.MEASURED, 64), (Kind.STATIC, 1)])
def test_of_a_static_case_one_process_runs(kind: Kind, num_processes: int):
    assert factories.case(world_size=64, kind=kind).num_processes == num_processes


@pytest.mark.parametrize("kind", list(Kind))
def test_a_case_survives_json(kind: Kind):
    case = factories.case(
        arguments=("--lr", "0.1"), arrangement=Arrangement.ABBA, warmup_steps=3, kind=kind
    )
    again = domain.case_from_json(json.loads(json.dumps(asdict(case))))
    assert again == case
    assert again.key == case.key


def test_a_policy_survives_json():
    metrics = {"step_time_s": Rule(min_effect=0.04, gate=False)}
    policy = Policy(metrics=metrics, max_pairs=8, budget_device_hours=0.5)
    assert domain.policy_from_json(json.loads(json.dumps(asdict(policy)))) == policy


@pytest.mark.parametrize(
    ("max_pairs", "looks"),
    [(3, (3,)), (4, (3,)), (12, (3, 5, 8, 12)), (19, (3, 5, 8, 12)), (20, LOOKS), (2, ())],
)
def test_max_pairs_is_rounded_down_to_a_look(max_pairs: int, looks: tuple[int, ...]):
    assert Policy(max_pairs=max_pairs).looks == looks


def test_throughput_is_judged_like_the_step_time_unless_named():
    own = Rule(min_effect=0.07, gate=True)
    policy = Policy(metrics={"step_time_s": own})
    assert policy.rule("tokens_per_s") == own
    assert policy.rule("steps_per_s") == own
    named = Rule(min_effect=0.01, gate=False)
    assert Policy(metrics={"tokens_per_s": named}).rule("tokens_per_s") == named


def test_a_stand_in_is_judged_as_the_other():
    """Which of them is measured is the trainer's affair, not the policy's."""
    strict = Rule(min_effect=0.01, gate=True)
    lax = Rule(min_effect=0.05, gate=False)
    policy = Policy(metrics={"step_time_s": lax, "tokens_per_s": strict})
    assert policy.rule("steps_per_s") == strict


def test_a_member_is_judged_by_its_own_rule_or_its_familys():
    own, family = (Rule(min_effect=effect, gate=True) for effect in (0.1, 0.2))
    policy = Policy(metrics={"busbw_bytes_per_s@1024": own, "busbw_bytes_per_s": family})
    assert policy.rule("busbw_bytes_per_s@1024") == own
    assert policy.rule("busbw_bytes_per_s@2048") == family
    assert Policy().rule("busbw_bytes_per_s@2048") == Rule(min_effect=0.05, gate=True)
    assert policy.rule("algbw_bytes_per_s@1024") is None


def test_every_metric_has_a_rule_or_is_only_recorded():
    for name, metric in METRICS.items():
        rule = Policy().rule(name)
        assert (rule is None) == (metric.method is Method.RECORDED), name


def test_a_recorded_metric_stays_so_whatever_the_policy_says():
    policy = Policy(metrics={"loss": Rule(min_effect=0.1, gate=True)})
    assert policy.rule("loss") is None


def test_delta_is_symmetric_on_the_log_scale():
    rule = Rule(min_effect=0.25, gate=True)
    assert math.exp(rule.log_min_effect) == pytest.approx(1.25)
    assert math.exp(-rule.log_min_effect) == pytest.approx(1 / 1.25)


@pytest.mark.parametrize("status", list(Status))
def test_final_states(status: Status):
    assert status.is_final == (status.value in ("finished", "failed", "cancelled"))


def test_a_missing_verdict_outranks_every_harmless_one():
    harmless = [Verdict.NO_CHANGE, Verdict.IMPROVEMENT]
    for open_verdict in (Verdict.MISSING, Verdict.INVALID, Verdict.INCONCLUSIVE):
        assert domain.worst([*harmless, open_verdict]) is open_verdict


def test_a_regression_outranks_a_missing_verdict():
    assert domain.worst(list(Verdict)) is Verdict.BROKEN
    assert domain.worst([Verdict.MISSING, Verdict.REGRESSION]) is Verdict.REGRESSION


def test_without_verdicts_one_is_missing():
    assert domain.worst([]) is Verdict.MISSING


def test_every_verdict_has_its_place():
    assert sorted(map(domain.severity, Verdict)) == list(range(len(Verdict)))


def test_equal_values_have_equal_hashes_in_any_order():
    assert domain.content_hash({"a": 1, "b": [2]}) == domain.content_hash({"b": [2], "a": 1})
    assert domain.content_hash([1, 2]) != domain.content_hash([2, 1])
