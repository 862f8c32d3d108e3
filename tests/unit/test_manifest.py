"""paceline.yml in, cases and policy out; what is wrong is named by line and field."""

import pytest

from service import manifest
from service.domain import Arrangement, Kind, Rule
from service.errors import ManifestError, Refused

WHOLE = """\
version: 1
setup: {dependencies: ["requirements.txt"], install: ["pip install --no-deps -e ."]}
cases:
  - {name: tinylm, script: train.py, args: ["--steps", "400"], world_sizes: [2], warmup_steps: 10,
     arrangement: lockstep}
  - {name: ddp-small, kind: measured, workload: training.ddp, with: {model: small, seq_len: 128},
     world_sizes: [2, 4], threads_per_rank: 3, timeout_s: 60}
suites: {default: [tinylm], all: [ddp-small, tinylm]}
policy:
  metrics: {step_time_s: {min_effect: 0.02}, peak_rss_bytes: {min_effect: 0.05, gate: false}}
  max_pairs: 12
  budget_device_hours: 0.5
"""
SMALL = "version: 1\ncases:\n  - {name: a, script: train.py%s}\n"
ONE = SMALL % ""
WORKLOAD = "version: 1\ncases:\n  - name: a\n    workload: training.ddp\n    with: "


def test_a_whole_file():
    found = manifest.parse(WHOLE)

    (tinylm,) = found.entries["tinylm"]
    assert tinylm.name == "tinylm"
    assert (tinylm.script, tinylm.workload) == ("train.py", None)
    assert tinylm.arguments == ("--steps", "400")
    assert tinylm.warmup_steps == 10
    assert tinylm.arrangement is Arrangement.LOCKSTEP
    assert tinylm.timeout_s == 600.0
    assert found.setup.install == ["pip install --no-deps -e ."]
    assert found.suites["all"] == ("ddp-small", "tinylm")
    assert found.policy.metrics["step_time_s"] == Rule(min_effect=0.02, gate=True)
    assert found.policy.metrics["peak_rss_bytes"] == Rule(min_effect=0.05, gate=False)
    assert found.policy.looks == (3, 5, 8, 12)
    assert found.policy.budget_device_hours == 0.5


def test_each_world_size_is_a_case_of_its_own():
    two, four = manifest.parse(WHOLE).entries["ddp-small"]

    assert (two.name, two.world_size) == ("ddp-small@2", 2)
    assert (four.name, four.world_size) == ("ddp-small@4", 4)
    assert two.arguments == ("--model=small", "--seq-len=128")
    assert two.threads_per_rank == 3
    assert two.key != four.key


def test_defaults():
    found = manifest.parse(ONE)

    (case,) = found.entries["a"]
    assert (case.world_size, case.threads_per_rank, case.warmup_steps) == (1, 1, None)
    assert case.arrangement is None
    assert found.policy.looks == (3, 5, 8, 12, 20)


@pytest.mark.parametrize(
    ("suite", "names", "expected"),
    [
        (None, None, ["tinylm"]),
        ("all", None, ["ddp-small@2", "ddp-small@4", "tinylm"]),
        (None, ["tinylm", "ddp-small", "tinylm"], ["tinylm", "ddp-small@2", "ddp-small@4"]),
    ],
)
def test_selecting_cases(suite: str | None, names: list[str] | None, expected: list[str]):
    cases = manifest.parse(WHOLE).select(suite=suite, names=names)
    assert [case.name for case in cases] == expected


def test_without_a_default_suite_every_case_is_chosen():
    text = WHOLE.replace("suites: {default: [tinylm], all", "suites: {all")
    assert len(manifest.parse(text).select(suite=None, names=None)) == 3


@pytest.mark.parametrize(
    ("suite", "names", "field", "words"),
    [
        ("nightly", None, "suite", "no suite 'nightly'; it has: default, all"),
        (None, ["tinylm@2"], "cases", "no case 'tinylm@2'; it has: tinylm, ddp-small"),
    ],
)
def test_what_is_not_there_cannot_be_selected(
    suite: str | None, names: list[str] | None, field: str, words: str
):
    with pytest.raises(Refused, match=words) as error:
        manifest.parse(WHOLE).select(suite=suite, names=names)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("", 1, "(document)", "expected a mapping"),
        ("- version: 1", 1, "(document)", "expected a mapping"),
        ("&a [*a]", 1, "(document)", "expected a mapping"),
        ("version: 1\n\tcases: []", 2, "(syntax)", "cannot start any token"),
        ("version: 1\ncases: [", 2, "(syntax)", "node content"),
        ("version: 1\n---\nversion: 1", 2, "(syntax)", "another document"),
        ("version: 1\x00", 1, "(syntax)", "special characters"),
        ("[" * 1000, 1, "(syntax)", "recursion"),
        (SMALL % ", timeout_s: 2024-13-45", 1, "(syntax)", "month"),
        (SMALL % f", timeout_s: {'1:' * 200}1.0", 1, "(syntax)", "cannot be read"),
        (SMALL % ", timeout_s: !!timestamp soon", 1, "(syntax)", "cannot be read"),
        (SMALL % ", timeout_s: !!bool soon", 1, "(syntax)", "cannot be read"),
        (SMALL % ", args: !!python/tuple [a]", 3, "(syntax)", "constructor"),
    ],
)
def test_what_is_no_document(text: str, line: int, field: str, words: str):
    with pytest.raises(ManifestError, match=words) as error:
        manifest.parse(text)
    assert (error.value.line, error.value.field) == (line, field)


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("cases: []", 1, "version", "required; add it"),
        ("version: 2\ncases: [{name: a, script: b}]", 1, "version", "reads version: 1"),
        ("version: true\ncases: [{name: a, script: b}]", 1, "version", "valid integer"),
        ("version: 1.0\ncases: [{name: a, script: b}]", 1, "version", "valid integer"),
        ("version: 1\ncases: []", 2, "cases", "at least 1"),
        ("version: 1\ncases: {name: a}", 2, "cases", "valid list"),
        ("version: 1\nextra: 1\ncases: [{name: a, script: b}]", 2, "extra", "unknown; remove it"),
        ("version: 1\nversion: 1\ncases: [{name: a, script: b}]", 2, "version", "twice"),
        ("version: 1\ncases:\n  - script: b", 3, "cases.0.name", "required"),
        ("version: 1\ncases:\n  - {name: a/b, script: b}", 3, "cases.0.name", "pattern"),
        ("version: 1\ncases:\n  - {name: 5, script: b}", 3, "cases.0.name", "valid string"),
        ("version: 1\ncases:\n  - {name: a}", 3, "cases.0", "either a script: or a workload:"),
        (SMALL % ", workload: training.ddp", 3, "cases.0", "only one of them"),
        (SMALL % ", with: {a: 1}", 3, "cases.0", "belongs to a workload"),
        (SMALL % ",\n     kind: guessed", 4, "cases.0.kind", "'measured' or 'static'"),
        (SMALL % ", args: [--steps, 400]", 3, "cases.0.args.1", "valid string; quote it"),
        (SMALL % ', args: [!!binary "AA=="]', 3, "cases.0.args.0", "valid string"),
        (SMALL % ", args: [für\ufffd]", 3, "cases.0.args.0", "no UTF-8"),
        (SMALL % ', args: ["a\\0"]', 3, "cases.0.args.0", "NUL"),
        (SMALL % ', args: ["\\ud800"]', 3, "cases.0.args.0", "half a character"),
        (SMALL % ', "\\0": 1', 3, "cases.0", "NUL"),
        (SMALL % ", world_sizes: []", 3, "cases.0.world_sizes", "at least 1"),
        (SMALL % ", world_sizes: [0]", 3, "cases.0.world_sizes.0", "greater than or equal to 1"),
        (SMALL % ", world_sizes: [2, 2]", 3, "cases.0.world_sizes", "twice"),
        (SMALL % ", world_sizes: [true, 2]", 3, "cases.0.world_sizes.0", "valid integer"),
        (SMALL % ", threads_per_rank: 2.0", 3, "cases.0.threads_per_rank", "valid integer"),
        (SMALL % ", threads_per_rank: '2'", 3, "cases.0.threads_per_rank", "valid integer"),
        (SMALL % f", world_sizes: [{10**30}]", 3, "cases.0.world_sizes.0", "less than"),
        (SMALL % ", warmup_steps: -1", 3, "cases.0.warmup_steps", "greater than or equal to 0"),
        (SMALL % f", warmup_steps: {10**30}", 3, "cases.0.warmup_steps", "less than or equal"),
        (SMALL % ", timeout_s: 1.0e+300", 3, "cases.0.timeout_s", "less than or equal"),
        (SMALL % ", timeout_s: true", 3, "cases.0.timeout_s", "valid number"),
        (SMALL % ", timeout_s: .inf", 3, "cases.0.timeout_s", "finite"),
        (SMALL % ", timeout_s: .nan", 3, "cases.0.timeout_s", "finite"),
        (SMALL % ", arrangement: relay", 3, "cases.0.arrangement", "'lockstep' or 'abba'"),
        (ONE + "  - {name: a, script: b}", 4, "cases.1.name", "two cases are called 'a'"),
        (ONE + "suites: {x: [a,\n b]}", 5, "suites.x.1", "'b' is no case; known: ['a']"),
        (ONE + "suites: {default: []}", 4, "suites.default", "at least 1"),
        (
            ONE + "policy: {max_pairs: 2}",
            4,
            "policy.max_pairs",
            "greater than or equal to 3",
        ),
        (ONE + "policy: {max_pairs: 21}", 4, "policy.max_pairs", "less than or equal to 20"),
        (
            ONE + "policy:\n  metrics:\n    loss: {min_effect: .1}",
            6,
            "policy.metrics.loss",
            "not a judged metric; known are step_time_s",
        ),
        (
            ONE + "policy: {metrics: {step_time_s: {min_effect: 0.02, gate: 0}}}",
            4,
            "policy.metrics.step_time_s.gate",
            "valid boolean",
        ),
        (
            ONE + "policy: {metrics: {step_time_s: {min_effect: 0.02},\n tokens_per_s: {}}}",
            5,
            "policy.metrics.tokens_per_s.min_effect",
            "required",
        ),
        (
            ONE + "policy:\n  metrics: {steps_per_s: {min_effect: 0.02}}",
            5,
            "policy.metrics.steps_per_s",
            "stands in for tokens_per_s: name that one",
        ),
        (
            ONE + "policy:\n  metrics: {busbw_bytes_per_s@1 MiB: {min_effect: 0.02}}",
            5,
            "policy.metrics.busbw_bytes_per_s@1 MiB",
            "is not a judged metric",
        ),
        (
            WORKLOAD + f"{{steps: 0x{'f' * 5000}}}",
            5,
            "cases.0.with.steps",
            "too large; quote it",
        ),
        (
            "version: 1\ncases:\n  - name: a\n    workload: training.ddp\n    with:\n      b: [1]",
            6,
            "cases.0.with.b",
            "",
        ),
    ],
)
def test_errors_name_line_and_field(text: str, line: int, field: str, words: str):
    with pytest.raises(ManifestError) as error:
        manifest.parse(text, source="paceline.yml of 1a2b")
    assert (error.value.line, error.value.field) == (line, field)
    assert words in error.value.detail
    assert f"paceline.yml of 1a2b, line {line}, {field}: " in error.value.detail


STATIC = "version: 1\ncases:\n  - {name: a, kind: static, workload: training.fsdp%s}\n"


def test_a_static_case_is_of_any_world_size():
    (case,) = manifest.parse(STATIC % ", with: {model: 8b}, world_sizes: [64]").entries["a"]
    assert (case.kind, case.world_size, case.num_processes) == (Kind.STATIC, 64, 1)
    assert case.arguments == ("--model=8b",)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (", arrangement: abba", "runs no steps; remove arrangement:"),
        (", warmup_steps: 5", "runs no steps; remove warmup_steps:"),
    ],
)
def test_a_static_case_runs_nothing(more: str, words: str):
    with pytest.raises(ManifestError, match=words) as error:
        manifest.parse(STATIC % more)
    assert error.value.field == "cases.0"


def test_a_static_case_is_no_script_s():
    with pytest.raises(ManifestError, match="what a workload: would do"):
        manifest.parse(SMALL % ", kind: static")


@pytest.mark.parametrize("kind", list(Kind))
def test_selecting_one_kind(kind: Kind):
    text = STATIC.replace("cases:", "cases:\n  - {name: b, script: train.py}") % ""
    (case,) = manifest.parse(text).select(suite=None, names=None, kind=kind)
    assert case.kind is kind


def test_a_kind_that_no_case_is_of():
    with pytest.raises(Refused, match="None of these is a static case: a") as error:
        manifest.parse(ONE).select(suite=None, names=None, kind=Kind.STATIC)
    assert error.value.field == "kind"


def test_a_count_may_be_judged_to_the_last_digit():
    text = STATIC % "" + "policy: {metrics: {static_flops: {min_effect: 0}}}"
    assert manifest.parse(text).policy.metrics["static_flops"].min_effect == 0.0


@pytest.mark.parametrize("effect", ["2", "1", "0", "-0.02", "true", "2%", "'0.02'", ".nan", "[1]"])
def test_the_smallest_effect_is_a_fraction(effect: str):
    text = f"{ONE}policy: {{metrics: {{step_time_s: {{min_effect: {effect}}}}}}}"
    with pytest.raises(ManifestError, match=r"0\.02 means 2 %") as error:
        manifest.parse(text)
    assert error.value.field == "policy.metrics.step_time_s.min_effect"


def test_an_option_is_passed_on_as_a_workload_takes_it():
    numbers = f"steps: {2**63 - 1}, learning_rate: 1.5, seed: '{'9' * 40}'"
    text = f"{WORKLOAD}{{{numbers}, fused: true, use_ema: no}}"
    (case,) = manifest.parse(text).entries["a"]
    assert case.arguments == (
        f"--steps={2**63 - 1}",
        "--learning-rate=1.5",
        f"--seed={'9' * 40}",
        "--fused",
        "--no-use-ema",
    )


@pytest.mark.parametrize("script", ["", "/etc/passwd", "../train.py", "a/../../b", "--nnodes=7"])
def test_a_script_is_a_file_of_the_repository(script: str):
    with pytest.raises(ManifestError, match="no file of the repository") as error:
        manifest.parse(f"version: 1\ncases: [{{name: a, script: {script!r}}}]")
    assert error.value.field == "cases.0.script"


def test_an_alias_serves_several_cases():
    cases = "  - &a {name: a, script: train.py, timeout_s: 30}\n  - {<<: *a, name: b}"
    text = f"version: 1\ncases:\n{cases}"
    (second,) = manifest.parse(text).entries["b"]
    assert (second.script, second.timeout_s) == ("train.py", 30.0)


def test_a_manifest_built_of_aliases_is_refused_at_once():
    layers = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))
    with pytest.raises(ManifestError, match="required"):
        manifest.parse(f"l0: &l0 [x]\n{layers}\nversion: 1")


def entries(text: str) -> manifest.Manifest:
    return manifest.parse(f"version: 1\n{text}")


def test_what_only_the_candidate_has_stands_behind():
    baseline = entries("cases: [{name: a, script: t.py}]\nsuites: {nightly: [a]}")
    candidate = entries(
        "cases: [{name: b, script: t.py}, {name: a, script: other.py, world_sizes: [2, 1]}]\n"
        "suites: {nightly: [b, a], weekly: [b]}\npolicy: {max_pairs: 3}"
    )
    found = baseline.with_new_cases(candidate)
    assert [case.name for case in found.entries["a"]] == ["a", "a@2"]
    assert found.entries["a"][0] == baseline.entries["a"][0]
    assert found.entries["b"] == candidate.entries["b"]
    assert found.suites == {"nightly": ("a", "b")}
    assert found.policy == baseline.policy


def test_a_new_world_size_never_takes_the_name_of_a_case():
    two, four = (
        entries(f"cases: [{{name: a, script: t.py, world_sizes: [{size}]}}]") for size in (2, 4)
    )
    found = two.with_new_cases(four)
    assert [(case.name, case.world_size) for case in found.entries["a"]] == [("a", 2), ("a@4", 4)]


def test_a_new_case_of_a_candidate_without_suites_belongs_to_the_default_one():
    baseline = entries("cases: [{name: a, script: t.py}]\nsuites: {default: [a], nightly: [a]}")
    candidate = entries("cases: [{name: a, script: t.py}, {name: b, script: t.py}]")
    found = baseline.with_new_cases(candidate)
    assert found.suites == {"default": ("a", "b"), "nightly": ("a",)}
