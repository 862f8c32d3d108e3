from dataclasses import replace

import pytest

from dashboards.sections import comparison_outcome, run_section
from service.domain import FailureReason, Intent, Kind, Role, Status, Verdict
from tests.unit import dashboards_factories as make


def section(run, traces=()):
    return run_section(run, traces, now=make.NOW)


def facts(rows):
    return {row.name: row for row in rows}


class TestCases:
    def test_they_come_in_the_order_of_the_comparisons_worst_first(self):
        comparisons = [
            make.comparison(Verdict.REGRESSION, case="slow"),
            make.comparison(Verdict.NO_CHANGE, case="fine"),
        ]
        run = make.run(comparisons=comparisons, pairs=make.pairs(case="only-paired"))
        found = section(run).cases
        assert [case.name for case in found] == ["slow", "fine", "only-paired"]
        assert [case.outcome.word for case in found] == ["regression", "no change", "missing"]

    def test_each_has_only_what_is_its_own(self):
        run = make.run(
            comparisons=[make.comparison(case="a"), make.comparison(case="b")],
            trials=[make.trial(case="a"), make.trial(case="b")],
            pairs=[make.pair(0, case="a")],
        )
        first, second = section(run).cases
        assert (len(first.trials), len(first.pairs)) == (1, 1)
        assert (len(second.trials), len(second.pairs)) == (1, 0)
        assert first.anchor != second.anchor

    def test_only_gating_metrics_are_drawn(self):
        found = make.pairs()
        comparisons = [replace(item, is_gating=i == 0) for i, item in enumerate(make.judged(found))]
        [case] = section(make.run(comparisons=comparisons, pairs=found)).cases
        assert [plot.title for plot in case.intervals] == ["Step time: the pairs"]

    def test_a_trial_that_only_followed_the_other_side_does_not_count_as_failed(self):
        trials = [
            make.failed_trial(FailureReason.CRASHED),
            make.failed_trial(FailureReason.PEER_FAILED, role=Role.BASELINE),
        ]
        [case] = section(make.run(trials=trials)).cases
        assert case.num_failed == 1


class TestShownPair:
    def test_it_is_that_of_the_trace_counted_from_one_for_people(self):
        [case] = section(make.measured_run(), [make.trace(pair=2)]).cases
        assert case.shown_pair == 2
        assert case.trace.title == "Step times of pair 3"

    def test_without_a_valid_pair_there_is_none(self):
        [case] = section(make.measured_run()).cases
        assert (case.trace, case.shown_pair) == (None, None)


class TestOutcomes:
    def test_an_undecided_metric_of_a_run_that_goes_on_is_open_not_inconclusive(self):
        comparison = make.comparison(Verdict.INCONCLUSIVE)
        assert comparison_outcome(comparison, Status.RUNNING).word == "open"
        assert comparison_outcome(comparison, Status.FINISHED).word == "inconclusive"

    def test_a_case_is_as_open_as_its_open_metric(self):
        run = make.run(Status.RUNNING, comparisons=[make.comparison(Verdict.INCONCLUSIVE)])
        assert section(run).cases[0].outcome.word == "open"

    def test_a_case_without_comparisons_is_running_while_the_run_is(self):
        run = make.run(Status.RUNNING, pairs=make.pairs(1))
        assert section(run).cases[0].outcome.word == "running"

    def test_a_failed_run_says_what_to_do_about_its_reason(self):
        run = make.run(Status.FAILED, failure_reason=FailureReason.UNKNOWN_REVISION)
        assert "Check the spelling" in section(run).advice


class TestAgain:
    def test_an_undecided_run_can_be_asked_for_with_more_pairs(self):
        found = section(make.run(verdict=Verdict.INCONCLUSIVE)).again
        assert found == "paceline compare main..faster-rope --project tinylm --max-pairs 20"

    def test_it_asks_for_the_same_cases_and_pairs(self):
        run = make.run(Status.CANCELLED, cases=["a", "b; reboot"], max_pairs=8)
        assert section(run).again.endswith("--case a --case 'b; reboot' --max-pairs 8")
        run = make.run(Status.CANCELLED, suite="nightly")
        assert section(run).again.endswith("--project tinylm --suite nightly")

    @pytest.mark.parametrize("asked", [{"budget_device_hours": 0.5}, {"intent": Intent.CALIBRATE}])
    def test_what_no_command_line_can_ask_for_is_not(self, asked):
        assert section(make.run(Status.CANCELLED, **asked)).again is None

    def test_static_cases_are_asked_for_by_their_command(self):
        run = make.run(verdict=Verdict.MISSING, kind=Kind.STATIC, suite="nightly", max_pairs=8)
        assert "paceline static " in section(run).again
        assert section(run).again.endswith("--suite nightly")

    def test_what_had_nothing_new_is_not_asked_for_again(self):
        run = make.run(Status.CANCELLED, failure_reason=FailureReason.SAME_SIDES)
        assert section(run).again is None
        assert section(run).advice == "There was nothing to measure."

    def test_the_cluster_is_named_unless_it_is_the_default(self):
        assert "--cluster h200" in section(make.run(Status.CANCELLED, cluster="h200")).again

    @pytest.mark.parametrize(
        "verdict", [Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.NO_CHANGE, Verdict.BROKEN]
    )
    def test_a_decided_run_is_not(self, verdict):
        assert section(make.run(verdict=verdict)).again is None

    def test_a_side_that_no_command_line_can_name_is_not(self):
        run = make.run(Status.CANCELLED, candidate=make.side(image="ngc:26.10"))
        assert section(run).again is None

    def test_a_hostile_revision_is_quoted(self):
        run = make.run(Status.CANCELLED, candidate=make.side(requested="x;reboot"))
        assert "'main..x;reboot'" in section(run).again


class TestFacts:
    def test_software_that_differs_is_marked_and_comes_first(self):
        old = {"python": "3.11.2", "versions": {"torch": "2.12.1"}}
        trials = [make.trial(Role.BASELINE, software=old), make.trial(Role.CANDIDATE)]
        found = section(make.run(trials=trials)).sides
        names = [row.name for row in found]
        assert facts(found)["torch"].values == ["2.12.1", "2.13.0"]
        assert facts(found)["torch"].differs
        assert not facts(found)["python"].differs
        assert names.index("torch") < names.index("python")

    def test_software_that_varies_within_a_side_is_shown_whole(self):
        trials = [make.trial(software={"torch": version}) for version in ("2.12", "2.13", "2.12")]
        found = facts(section(make.run(trials=trials)).sides)
        assert found["torch"].values == ["–", "2.12 / 2.13"]

    def test_the_commits_differ_without_being_marked(self):
        commit = facts(section(make.run()).sides)["commit"]
        assert not commit.is_uniform
        assert not commit.differs

    def test_what_surrounds_the_revisions_is_marked(self):
        run = make.run(candidate=make.side(environment={"NCCL_ALGO": "Tree"}))
        found = facts(section(run).sides)["environment"]
        assert found.values == ["–", "NCCL_ALGO=Tree"]
        assert found.differs

    def test_what_neither_side_has_is_left_out(self):
        assert "image" not in facts(section(make.run()).sides)

    def test_environments_stand_side_by_side(self):
        other = make.environment(soft={"node": "bench-02", "kernel": "6.1.0"})
        found = section(make.run(environments=[make.environment(), other]))
        assert facts(found.soft)["node"].differs
        assert facts(found.soft)["arrangement"].values == ["lockstep", "–"]
        assert facts(found.hard)["memory"].values == ["128.0 GiB"] * 2
