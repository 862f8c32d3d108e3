"""What a check saw."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is, worst first. A warning stops nothing."""

    FAILURE = "failure"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check saw; `remedy` is empty where nothing is to be done."""

    check: str
    level: Level
    detail: str
    remedy: str = ""


def ok(check: str, detail: str) -> Finding:
    """All is well."""
    return Finding(check=check, level=Level.OK, detail=detail)


def warning(check: str, detail: str, *, remedy: str) -> Finding:
    """Something to know, or to do some day."""
    return Finding(check=check, level=Level.WARNING, detail=detail, remedy=remedy)


def failure(check: str, detail: str, *, remedy: str) -> Finding:
    """Paceline cannot work like this."""
    return Finding(check=check, level=Level.FAILURE, detail=detail, remedy=remedy)


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """The findings by level; those of one level keep their order."""
    return sorted(findings, key=lambda finding: list(Level).index(finding.level))
