"""paceline.yml: from its text to cases, suites and policy. Errors name line and field."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)

from service.domain import LOOKS, Arrangement, Case, Kind, Policy, Rule
from service.errors import ManifestError, Refused
from service.metrics import METRICS, Method, find, metric_named
from service.yaml_tree import Complaint, load, locate, unusable

FILE_NAME = "paceline.yml"
DEFAULT_SUITE = "default"


def _in_repository(script: str) -> str:
    path = PurePosixPath(script)
    if script[:1] in ("", "-", "/") or ".." in path.parts:
        raise ValueError(f"{script!r} is no file of the repository; name one such as train.py")
    return script


def _distinct(sizes: list[int]) -> list[int]:
    if len(set(sizes)) < len(sizes):
        raise ValueError("a size is named twice")
    return sizes


def _judged(name: str) -> str:
    metric = find(name)
    if metric is None or metric.method is Method.RECORDED:
        judged = [name for name, metric in METRICS.items() if metric.method is not Method.RECORDED]
        raise ValueError(f"{name} is not a judged metric; known are {', '.join(judged)}")
    if metric.stands_in_for is not None:
        raise ValueError(f"{name} stands in for {metric.stands_in_for}: name that one")
    return name


_FRACTION = "expected a fraction between 0 and 1; 0.02 means 2 %"


def _fraction(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(_FRACTION)
    return float(value)


def _writable(value: str | int | float | bool) -> str | int | float | bool:
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("this number is too large; quote it to pass it on as it stands")
    return value


def _supported(version: int) -> int:
    if version != 1:
        raise ValueError("this Paceline reads version: 1")
    return version


_MANY = 1_000_000
Count = Annotated[int, Field(ge=1, le=_MANY)]
Positive = Annotated[float, Field(gt=0, le=_MANY, allow_inf_nan=False)]
Option = Annotated[str | int | float | bool, AfterValidator(_writable)]


class _Strict(BaseModel):
    """Takes nothing for what it is not: no `true` for 1, no bytes for text."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


class Setup(_Strict):
    """How a side is prepared: files whose content decides its dependencies, and commands."""

    dependencies: list[str] = []
    install: list[str] = []


class CaseEntry(_Strict):
    """One entry of `cases:`; each of its world sizes is one case."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    kind: Annotated[Kind, Field(strict=False)] = Kind.MEASURED
    script: Annotated[str, AfterValidator(_in_repository)] | None = None
    workload: Annotated[str, Field(pattern=r"^[a-z_]+(\.[a-z_0-9]+)+$")] | None = None
    args: list[str] = []
    options: Annotated[dict[str, Option], Field(alias="with")] = {}
    world_sizes: Annotated[list[Count], Field(min_length=1), AfterValidator(_distinct)] = [1]
    threads_per_rank: Count = 1
    warmup_steps: Annotated[int, Field(ge=0, le=_MANY)] | None = None
    arrangement: Annotated[Arrangement | None, Field(strict=False)] = None
    timeout_s: Positive = 600.0

    @model_validator(mode="after")
    def _one_program(self) -> "CaseEntry":
        if (self.script is None) == (self.workload is None):
            raise ValueError("name either a script: or a workload:, and only one of them")
        if self.script is not None and self.options:
            raise ValueError("with: belongs to a workload; give a script its args:")
        return self

    @model_validator(mode="after")
    def _runnable(self) -> "CaseEntry":
        if self.kind is Kind.STATIC:
            if self.script is not None:
                raise ValueError("a static case counts what a workload: would do; name one")
            for name in ("arrangement", "warmup_steps"):
                if getattr(self, name) is not None:
                    raise ValueError(f"a static case runs no steps; remove {name}:")
        return self


class MetricEntry(_Strict):
    """One entry of `policy.metrics:`."""

    min_effect: Annotated[float, PlainValidator(_fraction)]
    gate: bool = True


class PolicyEntry(_Strict):
    """`policy:`."""

    metrics: dict[Annotated[str, AfterValidator(_judged)], MetricEntry] = {}
    max_pairs: Annotated[int, Field(ge=LOOKS[0], le=LOOKS[-1])] = LOOKS[-1]
    budget_device_hours: Positive | None = None


class _Document(_Strict):
    version: Annotated[int, AfterValidator(_supported)]
    setup: Setup = Setup()
    cases: Annotated[list[CaseEntry], Field(min_length=1)]
    suites: dict[str, Annotated[list[str], Field(min_length=1)]] = {}
    policy: PolicyEntry = PolicyEntry()

    def contradictions(self) -> Iterator[Complaint]:
        """Where one part of the document denies another."""
        names: list[str] = []
        for number, entry in enumerate(self.cases):
            if entry.name in names:
                yield ("cases", number, "name"), f"two cases are called {entry.name!r}"
            names.append(entry.name)
        for suite, members in self.suites.items():
            for number, member in enumerate(members):
                if member not in names:
                    yield ("suites", suite, number), f"{member!r} is no case; known: {names}"
        for name, rule in self.policy.metrics.items():
            if rule.min_effect == 0 and metric_named(name).method is not Method.COUNTED:
                detail = f"{_FRACTION}. What is measured always varies; only counts may have 0"
                yield ("policy", "metrics", name, "min_effect"), detail


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a revision's paceline.yml says."""

    setup: Setup
    entries: dict[str, tuple[Case, ...]]  # by entry name, one case per world size
    suites: dict[str, tuple[str, ...]]
    policy: Policy

    def members(self, suite: str) -> tuple[str, ...]:
        """Entries of a suite; the suite `default` has all of them unless the file names them."""
        return self.suites.get(suite, tuple(self.entries) if suite == DEFAULT_SUITE else ())

    def with_new_cases(self, candidate: "Manifest") -> "Manifest":
        """This manifest, and behind each entry and suite what only the candidate's has.

        A new world size has its number in its name: the entry's own name may be a case's already.
        """
        entries = dict(self.entries)
        for name, cases in candidate.entries.items():
            own = self.entries.get(name, ())
            known = {case.world_size for case in own}
            new = [case for case in cases if case.world_size not in known]
            if own:
                new = [replace(case, name=f"{name}@{case.world_size}") for case in new]
            entries[name] = (*own, *new)
        suites = {
            suite: (*members, *(n for n in candidate.members(suite) if n not in self.entries))
            for suite, members in self.suites.items()
        }
        return replace(self, entries=entries, suites=suites)

    def select(
        self, *, suite: str | None, names: Sequence[str] | None, kind: Kind | None = None
    ) -> list[Case]:
        """Cases of a suite or of named entries, each once; of one kind, where one is given.

        By default those of the suite `default`, or all. Raises Refused where the suite or an entry
        does not exist, or no case is left.
        """
        if names:
            chosen = list(names)
        elif suite is not None and suite not in self.suites:
            known = ", ".join(self.suites) or "none"
            raise Refused("suite", f"{FILE_NAME} has no suite {suite!r}; it has: {known}.")
        else:
            chosen = list(self.members(suite or DEFAULT_SUITE))
        for name in chosen:
            if name not in self.entries:
                known = ", ".join(self.entries)
                raise Refused("cases", f"{FILE_NAME} has no case {name!r}; it has: {known}.")
        cases = [case for name in dict.fromkeys(chosen) for case in self.entries[name]]
        found = [case for case in cases if kind is None or case.kind is kind]
        if not found:
            raise Refused("kind", f"None of these is a {kind} case: {', '.join(chosen)}.")
        return found


def parse(text: str, source: str = FILE_NAME) -> Manifest:
    """Manifest from YAML text. Raises ManifestError, which names `source`, line and field."""
    tree, value = load(text, source)

    def wrong(path: Sequence[str | int], detail: str) -> ManifestError:
        known, line = locate(tree, path)
        field = ".".join(map(str, known)) or "(document)"
        return ManifestError(source=source, line=line, field=field, detail=detail)

    if not isinstance(value, dict):
        raise wrong((), "expected a mapping with version:, cases: and more")
    for path, detail in unusable(tree):
        raise wrong(path, detail)
    try:
        document = _Document.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise wrong(first["loc"], _remedy(first["type"], first["msg"])) from error
    for path, detail in document.contradictions():
        raise wrong(path, detail)
    return _manifest(document)


def _manifest(document: _Document) -> Manifest:
    policy = document.policy
    return Manifest(
        setup=document.setup,
        entries={entry.name: tuple(_cases(entry)) for entry in document.cases},
        suites={name: tuple(members) for name, members in document.suites.items()},
        policy=Policy(
            metrics={
                name: Rule(min_effect=metric.min_effect, gate=metric.gate)
                for name, metric in policy.metrics.items()
            },
            max_pairs=policy.max_pairs,
            budget_device_hours=policy.budget_device_hours,
        ),
    )


def _cases(entry: CaseEntry) -> list[Case]:
    options = [_option(name.replace("_", "-"), value) for name, value in entry.options.items()]
    many = len(entry.world_sizes) > 1
    return [
        Case(
            name=f"{entry.name}@{world_size}" if many else entry.name,
            world_size=world_size,
            script=entry.script,
            workload=entry.workload,
            kind=entry.kind,
            arguments=(*options, *entry.args),
            threads_per_rank=entry.threads_per_rank,
            warmup_steps=entry.warmup_steps,
            arrangement=entry.arrangement,
            timeout_s=entry.timeout_s,
        )
        for world_size in entry.world_sizes
    ]


def _option(name: str, value: str | int | float | bool) -> str:
    """An argument as a workload's command line takes it."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name}={value}"


def _remedy(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "this field is unknown; remove it or correct its spelling"
    if kind == "missing":
        return "this field is required; add it"
    if kind == "string_type":
        return f"{message}; quote it"
    return message.removeprefix("Value error, ")
