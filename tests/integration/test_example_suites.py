"""The smoke suite, by a real service from two commits: every case of it is measured."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from examples.demo import service
from examples.tinylm.make_repository import commit, git
from service.cli.follow import follow
from service.domain import Status, Verdict
from service.manifest import FILE_NAME, parse

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(1800)]

SMOKE = Path(__file__).parents[2] / "examples" / "suites" / "smoke.yml"
JUDGED = {Verdict.NO_CHANGE, Verdict.INCONCLUSIVE, Verdict.IMPROVEMENT, Verdict.REGRESSION}
METRICS = {
    "ddp": {"step_time_s", "tokens_per_s", "peak_rss_bytes"},
    "all-reduce": {"busbw_bytes_per_s@4096", "busbw_bytes_per_s@262144"},
    "gemm": {"flops_per_s@128x128x128", "flops_per_s@256x256x256"},
}


def make_stack(folder: Path) -> None:
    """A repository that has the suite and nothing else; its branch `comment` adds a comment."""
    folder.mkdir()
    git(folder, "init", "--initial-branch=main", "--template=")
    (folder / FILE_NAME).write_text(SMOKE.read_text())
    commit(folder, "Measure the stack", hour=9)
    git(folder, "switch", "--quiet", "--create", "comment")
    (folder / FILE_NAME).write_text(SMOKE.read_text() + "# Nothing else.\n")
    commit(folder, "Say that nothing else is here", hour=10)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("suites")
    make_stack(folder / "stack")
    with service(folder / "service") as client:
        client.post("/projects", {"name": "stack", "source": str(folder / "stack")})
        asked = {"project": "stack", "baseline": "main", "candidate": "comment", "max_pairs": 3}
        finished: dict[str, Any] = follow(client, client.post("/runs", asked)["id"], Console())
    return finished


def test_every_case_is_measured(run: dict[str, Any]) -> None:
    assert run["status"] == Status.FINISHED, run["headline"]
    assert METRICS.keys() == parse(SMOKE.read_text()).entries.keys()
    for case, metrics in METRICS.items():
        found = {item["metric"]: item for item in run["comparisons"] if item["case"] == case}
        assert metrics <= found.keys()
        for item in found.values():
            if item["is_gating"]:
                assert item["verdict"] in JUDGED, (case, item["metric"], item["reasons"])
                assert item["effect"] is not None


def test_no_pair_of_it_is_invalid(run: dict[str, Any]) -> None:
    assert [pair["invalid_reason"] for pair in run["pairs"]] == [None] * 3 * len(METRICS)
