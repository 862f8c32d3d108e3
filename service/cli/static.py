"""`paceline static BASE..CANDIDATE`: count what a step would do, on any machine."""

from service.cli.compare import (
    CaseOption,
    ClusterOption,
    JsonOption,
    ProjectOption,
    RevisionsArgument,
    SuiteOption,
    WatchOption,
    ask,
)
from service.domain import Kind


def static(
    revisions: RevisionsArgument,
    project: ProjectOption = None,
    suite: SuiteOption = None,
    case: CaseOption = None,
    cluster: ClusterOption = "local",
    watch: WatchOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count two revisions' static cases: FLOPs, collectives, bytes and peak memory of a step.

    Nothing is timed, and nothing needs the devices or the ranks of a case. Exit codes are those of
    `paceline compare`; a suite without a static case is a run that failed, 5.
    """
    asked = {"project": project, "suite": suite, "cases": case, "cluster": cluster}
    ask(revisions, {**asked, "kind": Kind.STATIC.value}, watch=watch, as_json=as_json)
