"""Asks why a candidate is slower: one profiled solo trial a side, which nobody times."""

from collections.abc import Mapping

from runners.bench import Bench
from runners.pair import alone
from runners.parsers import kineto, nccl_debug
from runners.trial import Trial
from service.domain import Case, Role
from service.stats import nccl
from service.stats.breakdown import Breakdown, breakdown
from service.stats.diagnosis import Diagnosis, Profile, diagnose
from service.usecases.recording import TrialResult
from workloads.records import PROFILE_VARIABLE, trace_file

NUM_STEPS = 5
_VARIABLES = {
    PROFILE_VARIABLE: str(NUM_STEPS),
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM,TUNING",
}


def profile_sides(bench: Bench, case: Case) -> tuple[Mapping[Role, TrialResult], Diagnosis]:
    """The profiled trials and what they tell; where one has no profile, that is all there is."""
    trials: dict[Role, TrialResult] = {}
    profiles: dict[Role, Profile] = {}
    for role in Role:
        with alone(bench, case, role, _VARIABLES) as trial:
            trials[role] = result = trial.result()
            if result.failure is not None:
                return trials, _without(role, result.failure.detail)
            try:
                profiles[role] = _read(bench, case, trial)
            except (ValueError, OSError) as error:
                return trials, _without(role, f"{error}.")
    try:
        return trials, diagnose(profiles[Role.BASELINE], profiles[Role.CANDIDATE])
    except ValueError as error:
        return trials, Diagnosis(reason=f"The profiles cannot be compared: {error}.")


def _without(role: Role, detail: str) -> Diagnosis:
    return Diagnosis(reason=f"The {role} could not be profiled: {detail}")


def _read(bench: Bench, case: Case, trial: Trial) -> Profile:
    """The profile of a trial. Raises ValueError for a trace that is none, OSError without one."""
    return Profile(
        ranks=[_read_rank(bench, trial, rank) for rank in range(case.world_size)],
        library=nccl.facts(nccl_debug.parse(trial.log)),
    )


def _read_rank(bench: Bench, trial: Trial, rank: int) -> Breakdown:
    bench.check()  # a large trace takes a while
    return breakdown(kineto.read(trace_file(trial.records, rank)))
