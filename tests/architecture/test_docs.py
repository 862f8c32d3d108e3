"""What a user can set, see or run is documented."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from service import manifest
from service.config import Settings
from service.domain import Arrangement, Intent, Kind, Scope, Verdict
from service.metrics import METRICS
from tests.architecture.source import ROOT, plugins

DOCS = ROOT / "docs"
FOLDERS = (
    "runners/launchers",
    *(f"workloads/{folder}" for folder in ("training", "comm", "data", "micro")),
)


def text(name: str) -> str:
    return (DOCS / name).read_text()


def rows(name: str) -> dict[str, str]:
    """First cells of the tables of a document (their code words), and the rest of the row."""
    found: dict[str, str] = {}
    for line in text(name).splitlines():
        if line.startswith("| "):
            first, _, rest = line.strip("| ").partition(" | ")
            for word in re.findall(r"`([^`]+)`", first):
                found[word] = rest
    return found


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented_with_its_default(name: str):
    row = rows("configuration.md")[f"PACELINE_{name.upper()}"]
    default = Settings.model_fields[name].default
    if isinstance(default, float):
        default = f"{default:g}"
    assert not default or str(default) in row


def test_no_setting_is_documented_that_does_not_exist():
    named = set(re.findall(r"PACELINE_[A-Z_]+", (DOCS / "configuration.md").read_text()))
    settings = {f"PACELINE_{name.upper()}" for name in Settings.model_fields}
    trainer = {"PACELINE_RECORDS", "PACELINE_TURN_SOCKET", "PACELINE_TRIAL_ID"}
    assert named - trainer <= settings


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_every_metric_is_in_the_glossary_as_the_code_has_it(metric):
    unit, better, method = (
        cell.strip() for cell in rows("glossary.md")[metric.name].split("|")[:3]
    )
    assert (unit, better) == (metric.unit, metric.better)
    assert method.startswith(metric.method)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_is_in_the_glossary(verdict: Verdict):
    assert verdict in rows("glossary.md")


@pytest.mark.parametrize("word", [*Intent, *Arrangement, *Kind, *Scope])
def test_every_intent_arrangement_kind_and_scope_is_in_the_glossary(word: str):
    assert f"`{word}`" in text("glossary.md")


def fields(model: type[BaseModel], prefix: str) -> list[str]:
    return [f"{prefix}{field.alias or name}" for name, field in model.model_fields.items()]


@pytest.mark.parametrize(
    "field",
    [
        *fields(manifest.Setup, "setup."),
        *fields(manifest.CaseEntry, ""),
        *fields(manifest.MetricEntry, ""),
        *fields(manifest.PolicyEntry, "policy."),
    ],
)
def test_every_field_of_paceline_yml_is_documented(field: str):
    assert re.search(rf"\b{re.escape(field)}\b", text("configuration.md"))


def test_the_documented_paceline_yml_is_valid():
    (example,) = re.findall(r"```yaml\n(version: 1\n.*?)```", text("configuration.md"), re.DOTALL)
    assert manifest.parse(example).entries


@pytest.mark.parametrize("file", [file for folder in FOLDERS for file in plugins(folder)])
def test_every_launcher_and_workload_is_documented(file: str):
    folder, name = Path(file).parent.name, Path(file).stem
    word = name if folder == "launchers" else f"{folder}.{name}"
    assert any(f"`{word}`" in page.read_text() for page in DOCS.glob("*.md"))


def test_links_between_documents_lead_somewhere():
    for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
