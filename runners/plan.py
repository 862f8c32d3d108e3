"""Plans a run: resolves its revisions and reads the cases from the project's paceline.yml."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from runners.checkout import Mirror
from runners.worker import Worker
from service import manifest
from service.db import runs as runs_db
from service.db.session import DATABASE_FAILURES
from service.domain import Case, Failure, FailureReason, Intent, SideSpec, kind_asked
from service.errors import Interrupted, ManifestError, MeasurementFailed, Refused
from service.manifest import Manifest
from service.usecases import runs
from service.usecases.runs import Plan, ResolvedRevision

logger = logging.getLogger(__name__)

_NUM_LEASES = 4  # a longer clone may be joined by a second planner, which waits for the mirror


def plan_run(run_id: UUID, worker: Worker) -> None:
    """Plan a queued run, or end it with the reason why it cannot be. Twice changes nothing."""
    try:
        _plan(run_id, worker)
    except MeasurementFailed as error:
        logger.info("run %s cannot be planned: %s", run_id, error)
        _fail(run_id, worker, error.failure)
    except (Interrupted, *DATABASE_FAILURES):  # the reconciler asks again
        raise
    except Exception:
        logger.exception("run %s: planning failed", run_id)
        detail = "Paceline itself failed; the worker's log has the traceback."
        _fail(run_id, worker, Failure(reason=FailureReason.INTERNAL, detail=detail))


def _plan(run_id: UUID, worker: Worker) -> None:
    with worker.transaction() as session:
        if not runs_db.claim_planning(
            session, run_id, lease_s=_NUM_LEASES * worker.settings.lease_s
        ):
            return
        run = runs_db.run(session, run_id)
        mirror = Mirror(
            worker.data_dir, run.project_id, run.project.source, worker.settings.git_credentials
        )
        baseline, candidate = runs.requested_sides(run)
    mirror.sync()
    resolved_candidate = mirror.resolve(candidate.revision, "candidate")
    resolved_baseline = mirror.resolve(baseline.revision, "baseline")
    if run.intent is not Intent.CALIBRATE:
        _assert_different(
            replace(baseline, revision=resolved_baseline.sha),
            replace(candidate, revision=resolved_candidate.sha),
        )
    in_force, of_candidate = _manifests(mirror, resolved_baseline, resolved_candidate)
    cases, unmeasurable = _cases(in_force, of_candidate, run.request, run.cluster.max_world_size)
    plan = Plan(
        candidate=resolved_candidate,
        baseline=resolved_baseline,
        cases=cases,
        unmeasurable=unmeasurable,
        policy=runs.policy_in_force(run, in_force.policy),
    )
    with worker.transaction() as session:
        runs.plan(session, run_id, plan)


def _fail(run_id: UUID, worker: Worker, failure: Failure) -> None:
    with worker.transaction() as session:
        runs.fail(session, run_id, failure)


def _assert_different(baseline: SideSpec, candidate: SideSpec) -> None:
    """A side measured against itself would clear a change that was not there."""
    if baseline == candidate:
        detail = (
            f"Both sides are commit {baseline.revision[:10]} with the same environment and "
            "arguments. Name another revision, or ask with the intent `calibrate`."
        )
        raise MeasurementFailed(Failure(reason=FailureReason.SAME_SIDES, detail=detail))


def read_manifest(mirror: Mirror, sha: str) -> Manifest | None:
    """The paceline.yml of a commit; None where it has none. Raises MeasurementFailed."""
    text = mirror.read(sha, manifest.FILE_NAME)
    if text is None:
        return None
    try:
        return manifest.parse(text, source=f"{manifest.FILE_NAME} of {sha[:10]}")
    except ManifestError as error:
        raise MeasurementFailed(
            Failure(reason=FailureReason.BAD_MANIFEST, detail=error.detail)
        ) from error


def _manifests(
    mirror: Mirror, baseline: ResolvedRevision, candidate: ResolvedRevision
) -> tuple[Manifest, Manifest]:
    """The manifest in force, which is the baseline's, and the candidate's; one may serve both."""
    of_baseline = read_manifest(mirror, baseline.sha)
    of_candidate = read_manifest(mirror, candidate.sha)
    in_force = of_baseline or of_candidate
    if in_force is None:
        detail = f"Neither side has a {manifest.FILE_NAME} at the top of its repository."
        raise MeasurementFailed(Failure(reason=FailureReason.BAD_MANIFEST, detail=detail))
    return in_force, of_candidate or in_force


def _cases(
    in_force: Manifest, of_candidate: Manifest, request: Mapping[str, Any], max_world_size: int
) -> tuple[list[Case], dict[str, str]]:
    """Cases of the run, and for those that cannot be measured, why."""
    both = in_force.with_new_cases(of_candidate)
    try:
        cases = both.select(
            suite=request["suite"], names=request["cases"], kind=kind_asked(request)
        )
    except Refused as error:
        raise MeasurementFailed(
            Failure(reason=FailureReason.NO_SUCH_CASE, detail=error.detail)
        ) from error
    known = {case.name for entry in in_force.entries.values() for case in entry}
    new = {case.name: "The baseline has no such case." for case in cases if case.name not in known}
    too_large = {
        case.name: f"It needs {case.num_processes} ranks; the cluster has {max_world_size}."
        for case in cases
        if case.name in known and case.num_processes > max_world_size
    }
    if too_large and len(new) + len(too_large) == len(cases):
        detail = "No case fits the cluster. " + " ".join(
            f"{name}: {why}" for name, why in too_large.items()
        )
        raise MeasurementFailed(Failure(reason=FailureReason.WORLD_SIZE_TOO_LARGE, detail=detail))
    return cases, new | too_large
