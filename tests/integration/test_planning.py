"""From a request to a plan: revisions and manifests of real git repositories."""

from pathlib import Path
from uuid import UUID

import pytest

from runners import plan as planning
from runners.plan import plan_run
from runners.worker import Worker
from service.config import Settings
from service.db import catalog, models
from service.db import runs as runs_db
from service.db.session import Message, Sessions, transaction
from service.domain import Failure, FailureReason, Intent, Kind, SideSpec, Status
from service.usecases import runs
from service.usecases.registry import add_project
from service.usecases.runs import RunRequest
from tests import factories
from tests.conftest import on_sqlite
from tests.factories import Repository

pytestmark = on_sqlite

MANIFEST = """\
version: 1
cases:
  - {name: small, script: train.py, world_sizes: [2]}
  - {name: wide, script: train.py, world_sizes: [2, 64]}
  - {name: huge, script: train.py, world_sizes: [64]}
suites: {default: [small], both: [small, wide], huge: [huge]}
policy: {max_pairs: 12}
"""
OTHER = MANIFEST.replace("max_pairs: 12", "max_pairs: 3").replace("small", "tiny")


class Planner:
    """A worker, and a project's repository with a baseline `main` and a candidate `faster`."""

    def __init__(self, sessions: Sessions, folder: Path) -> None:
        self.sent: list[Message] = []
        self.sessions = sessions
        with transaction(sessions, self.sent.append) as session:
            slot_id = factories.slot_id(session)
        self.worker = Worker(
            name="w",
            settings=Settings(data_dir=folder / "data"),
            sessions=sessions,
            send=self.sent.append,
            slot_id=slot_id,
        )
        self.repository: Repository = factories.repository(folder / "project")
        with transaction(sessions, self.sent.append) as session:
            add_project(session, name="p", source=str(self.repository.path))

    def commit(self, baseline: str | None, candidate: str | None) -> None:
        """Commit both manifests; None: no file."""
        self.repository.commit("base", {"train.py": "", "paceline.yml": baseline or ""})
        if baseline is None:
            self.repository.commit("no manifest", {"paceline.yml": None})
        self.repository.git("checkout", "--quiet", "-b", "faster")
        self.repository.commit("faster", {"train.py": "1", "paceline.yml": candidate or ""})
        if candidate is None:
            self.repository.commit("no manifest", {"paceline.yml": None})
        self.repository.git("checkout", "--quiet", "main")

    def request(
        self, *, baseline: str | None = "main", candidate: str | SideSpec = "faster", **body
    ) -> UUID:
        side = SideSpec(revision=candidate) if isinstance(candidate, str) else candidate
        with transaction(self.sessions, self.sent.append) as session:
            request = RunRequest(
                project="p",
                candidate=side,
                baseline=None if baseline is None else SideSpec(revision=baseline),
                **body,
            )
            return runs.request(session, request).id

    def plan(self, **body) -> UUID:
        run_id = self.request(**body)
        plan_run(run_id, self.worker)
        return run_id

    def run(self, run_id: UUID) -> models.Run:
        with self.sessions() as session:
            return runs_db.run(session, run_id)

    def cases(self, run_id: UUID) -> dict[str, str | None]:
        """Planned cases, and why one cannot be measured."""
        with self.sessions() as session:
            (job,) = runs_db.jobs(session, run_id)
            return {link.case.name: link.unmeasurable for link in job.job_cases}

    def failed(self, **body) -> models.Run:
        run = self.run(self.plan(**body))
        assert run.status is Status.FAILED
        assert run.failure_detail
        with self.sessions() as session:
            assert not runs_db.jobs(session, run.id)
        return run


@pytest.fixture
def planner(sessions: Sessions, tmp_path: Path) -> Planner:
    return Planner(sessions, tmp_path)


def test_a_planned_run_has_its_commits_and_one_job(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run_id = planner.plan()
    run = planner.run(run_id)
    git = planner.repository.git
    assert run.status is Status.QUEUED
    assert run.baseline_side is not None
    assert run.candidate_side is not None
    assert run.baseline_side.revision.sha == git("rev-parse", "main")
    assert run.candidate_side.revision.sha == git("rev-parse", "faster")
    assert planner.cases(run_id) == {"small": None}
    assert run.policy is not None
    assert run.policy["max_pairs"] == 12
    plan, execute = planner.sent
    assert (plan.task, execute.task) == (runs.PLAN_TASK, runs.EXECUTE_TASK)


def test_planning_twice_changes_nothing(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run_id = planner.plan()
    before, num_sent = planner.cases(run_id), len(planner.sent)
    plan_run(run_id, planner.worker)
    assert planner.cases(run_id) == before
    assert len(planner.sent) == num_sent


def test_cases_and_policy_are_the_baseline_s(planner: Planner):
    planner.commit(MANIFEST, OTHER)
    run_id = planner.plan()
    run = planner.run(run_id)
    assert run.policy is not None
    assert run.policy["max_pairs"] == 12
    assert planner.cases(run_id) == {"small": None, "tiny": "The baseline has no such case."}


@pytest.mark.parametrize("body", [{}, {"suite": "default"}, {"cases": ["small"]}])
def test_a_world_size_that_only_the_candidate_has_is_missing(
    planner: Planner, body: dict[str, object]
):
    planner.commit(MANIFEST, MANIFEST.replace("[2]", "[2, 3]"))
    cases = planner.cases(planner.plan(**body))
    assert cases == {"small": None, "small@3": "The baseline has no such case."}


def test_a_new_case_is_no_excuse_for_one_too_large(planner: Planner):
    planner.commit(MANIFEST, MANIFEST.replace("world_sizes: [64]}", "world_sizes: [64, 2]}"))
    assert planner.failed(suite="huge").failure_reason is FailureReason.WORLD_SIZE_TOO_LARGE


def test_without_a_file_in_the_baseline_the_candidate_s_serves_both(planner: Planner):
    planner.commit(None, OTHER)
    run_id = planner.plan()
    assert planner.cases(run_id) == {"tiny": None}


def test_without_a_file_in_the_candidate_the_baseline_s_serves_both(planner: Planner):
    planner.commit(MANIFEST, None)
    assert planner.cases(planner.plan()) == {"small": None}


@pytest.mark.parametrize("candidate", ["main", "HEAD", "faster^1"])
def test_a_side_against_itself_is_no_comparison(planner: Planner, candidate: str):
    planner.commit(MANIFEST, MANIFEST)
    run = planner.failed(candidate=candidate)
    assert run.failure_reason is FailureReason.SAME_SIDES
    assert "Name another revision" in (run.failure_detail or "")


def test_one_commit_may_differ_in_its_arguments(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    other = SideSpec(revision="main", environment={"NCCL_ALGO": "Ring"})
    assert planner.cases(planner.plan(baseline="main", candidate=other)) == {"small": None}


def test_a_calibration_measures_a_side_against_itself(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run = planner.run(planner.plan(candidate="main", intent=Intent.CALIBRATE))
    assert run.baseline_side_id == run.candidate_side_id
    assert run.status is Status.QUEUED


def test_head_is_the_branch_that_is_checked_out(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    planner.plan()
    planner.repository.git("checkout", "--quiet", "faster")
    run = planner.run(planner.plan(candidate="HEAD"))
    assert run.candidate_side is not None
    assert run.candidate_side.revision.sha == planner.repository.git("rev-parse", "faster")


def test_without_any_file_there_is_nothing_to_measure(planner: Planner):
    planner.commit(None, None)
    assert planner.failed().failure_reason is FailureReason.BAD_MANIFEST


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_malformed_file_ends_the_run_with_line_and_field(planner: Planner, side: str):
    bad = MANIFEST.replace("max_pairs: 12", "max_pair: 12")
    planner.commit(*((bad, MANIFEST) if side == "baseline" else (MANIFEST, bad)))
    run = planner.failed()
    assert run.failure_reason is FailureReason.BAD_MANIFEST
    assert "line 7, policy.max_pair: " in (run.failure_detail or "")
    name = "main" if side == "baseline" else "faster"
    assert planner.repository.git("rev-parse", name)[:10] in (run.failure_detail or "")


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ({"candidate": "nowhere"}, "candidate"),
        ({"baseline": "nowhere"}, "baseline"),
        ({"baseline": None, "candidate": "main"}, "baseline"),  # the first commit has no parent
        ({"candidate": "--upload-pack=x"}, "candidate"),
        ({"candidate": "x" * 200_000}, "candidate"),
    ],
)
def test_an_unknown_revision_ends_the_run(planner: Planner, body: dict[str, str], role: str):
    planner.commit(MANIFEST, MANIFEST)
    run = planner.failed(**body)
    assert run.failure_reason is FailureReason.UNKNOWN_REVISION
    assert f"The {role} " in (run.failure_detail or "")


def test_a_source_that_is_gone_ends_the_run(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    planner.repository.path.rename(planner.repository.path.with_name("moved"))
    assert planner.failed().failure_reason is FailureReason.SOURCE_UNAVAILABLE


def test_a_new_commit_is_seen(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    planner.plan()
    sha = planner.repository.commit("newer", {"train.py": "2"})
    run = planner.run(planner.plan(candidate=sha, baseline=None))
    assert run.baseline_side is not None
    assert run.baseline_side.revision.sha == planner.repository.git("rev-parse", f"{sha}^1")


@pytest.mark.parametrize("body", [{"suite": "nightly"}, {"cases": ["small", "medium"]}])
def test_a_case_that_does_not_exist_ends_the_run(planner: Planner, body: dict[str, object]):
    planner.commit(MANIFEST, MANIFEST)
    assert planner.failed(**body).failure_reason is FailureReason.NO_SUCH_CASE


def test_a_world_larger_than_the_cluster_is_missing_beside_others(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    cases = planner.cases(planner.plan(suite="both"))
    assert cases["small"] is None
    assert cases["wide@2"] is None
    assert cases["wide@64"] == "It needs 64 ranks; the cluster has 4."


def test_a_world_larger_than_the_cluster_ends_the_run_alone(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run = planner.failed(suite="huge")
    assert run.failure_reason is FailureReason.WORLD_SIZE_TOO_LARGE
    assert "It needs 64 ranks; the cluster has 4." in (run.failure_detail or "")


def test_a_static_world_may_be_larger_than_the_cluster(planner: Planner):
    static = MANIFEST.replace(
        "{name: huge, script: train.py", "{name: huge, kind: static, workload: training.fsdp"
    )
    planner.commit(static, static)
    assert planner.cases(planner.plan(cases=["small", "huge"], kind=Kind.STATIC)) == {"huge": None}


def test_a_kind_that_no_case_is_of_ends_the_run(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run = planner.failed(kind=Kind.STATIC)
    assert run.failure_reason is FailureReason.NO_SUCH_CASE
    assert "None of these is a static case: small." in (run.failure_detail or "")


def test_a_case_asked_for_twice_is_measured_once(planner: Planner):
    planner.commit(MANIFEST, OTHER)
    cases = planner.cases(planner.plan(cases=["small", "tiny", "small", "tiny"]))
    assert cases == {"small": None, "tiny": "The baseline has no such case."}


def test_a_second_planner_that_fails_does_not_fail_a_planned_run(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run_id = planner.plan()
    failure = Failure(reason=FailureReason.SOURCE_UNAVAILABLE, detail="The host is away.")
    with transaction(planner.sessions, planner.sent.append) as session:
        runs.fail(session, run_id, failure)
    assert planner.run(run_id).status is Status.QUEUED


def test_one_worker_plans_a_run_and_another_only_once_it_was_lost(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run_id = planner.request()
    with transaction(planner.sessions, planner.sent.append) as session:
        assert runs_db.claim_planning(session, run_id, lease_s=60)
    plan_run(run_id, planner.worker)
    with transaction(planner.sessions, planner.sent.append) as session:
        assert not runs_db.jobs(session, run_id)
        assert not runs_db.unplanned(session, older_than_s=-1), "it is being planned"
        runs_db.lock(session, run_id).planning_until = factories.NOON
        session.flush()
        assert list(runs_db.unplanned(session, older_than_s=-1)) == [run_id]
    plan_run(run_id, planner.worker)
    assert planner.cases(run_id) == {"small": None}


@pytest.mark.parametrize("max_pairs", [5, 20])
def test_a_request_comes_before_the_policy(planner: Planner, max_pairs: int):
    planner.commit(MANIFEST, MANIFEST)
    run = planner.run(planner.plan(max_pairs=max_pairs, budget_device_hours=0.25))
    assert run.policy is not None
    assert (run.policy["max_pairs"], run.policy["budget_device_hours"]) == (max_pairs, 0.25)


def test_a_cancelled_run_is_not_planned(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    run_id = planner.request()
    with transaction(planner.sessions, planner.sent.append) as session:
        runs.cancel(session, run_id)
    plan_run(run_id, planner.worker)
    assert planner.run(run_id).status is Status.CANCELLED


def test_our_own_failure_ends_the_run_too(planner: Planner, monkeypatch: pytest.MonkeyPatch):
    def broken(*_arguments: object) -> None:
        raise RuntimeError("a fault of ours")

    planner.commit(MANIFEST, MANIFEST)
    monkeypatch.setattr(planning, "read_manifest", broken)
    run = planner.failed()
    assert run.failure_reason is FailureReason.INTERNAL
    assert "a fault of ours" not in (run.failure_detail or "")


def test_words_of_a_commit_in_any_script(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    subject = "Schneller 🚀 — naïve ‮attention"
    sha = planner.repository.commit(subject, {"train.py": "3"})
    run = planner.run(planner.plan(candidate=sha, baseline=None))
    assert run.candidate_side is not None
    assert run.candidate_side.revision.subject == subject


def test_equal_commits_of_two_runs_share_their_rows(planner: Planner):
    planner.commit(MANIFEST, MANIFEST)
    first, second = planner.run(planner.plan()), planner.run(planner.plan())
    assert first.baseline_side_id == second.baseline_side_id
    with planner.sessions() as session:
        assert catalog.project(session, "p").id == first.project_id
