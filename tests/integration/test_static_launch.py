"""A service that launches static trials for real: a plain process of a program that counts."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from runners import library
from tests.integration.counting import run, service
from workloads import records

# The contract of `python -m workloads.static`, with counts that the arguments of a side decide.
PROGRAM = """\
import argparse
import os
import sys

from workloads.records import Records

options = argparse.ArgumentParser(prog="python -m workloads.static")
options.add_argument("workload")
options.add_argument("--world-size", type=int)
options.add_argument("--layers", type=int, default=32)
options.add_argument("--model")
config = options.parse_args()
assert "RANK" not in os.environ, "it is no rank"
assert os.getcwd() not in sys.path or not os.listdir(), "nothing of the project is in sight"
if config.layers > 40:
    sys.exit(f"{config.workload} of {config.layers} layers cannot be cut into {config.world_size}")
with Records() as records:
    records.write(
        "static",
        metrics={
            "static_flops": 10**12 * config.layers,
            "static_collective_bytes@all_gather": 2**20 * config.layers // config.world_size,
            "static_peak_bytes": 2**30,
            "static_num_operators": 3 * config.layers,
        },
        operators={"aten.mm": 2 * config.layers, "aten.add": config.layers},
    )
"""

MANIFEST = """\
version: 1
cases:
  - {name: 8b, kind: static, workload: training.fsdp, with: {model: 8b}, world_sizes: [64]}
  - {name: never, script: train.py}
suites: {default: [8b, never], measured: [never]}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A standalone service with a project of one commit, and a library that holds the program."""
    folder = tmp_path_factory.mktemp("static")
    made = folder / "workloads"
    (made / "static").mkdir(parents=True)
    (made / "records.py").symlink_to(records.__file__)
    (made / "static" / "__main__.py").write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patch, service(folder, MANIFEST) as client:
        patch.setattr(library, "_WORKLOADS", made)
        yield client


def test_a_layer_more_is_seen_at_64_ranks_on_one_machine(client: TestClient):
    found = run(client, "--layers=33")
    assert (found["verdict"], found["kind"]) == ("regression", "static"), found["headline"]
    assert "512 KiB before, 528 KiB now (+16 KiB, +3.1 %), and 1 more" in found["headline"]
    by_metric = {item["metric"]: item for item in found["comparisons"]}
    assert by_metric["static_peak_bytes"]["verdict"] == "no_change"
    flops = by_metric["static_flops"]
    assert flops["reasons"][0] == "FLOPs: 32 TFLOP before, 33 TFLOP now (+1 TFLOP, +3.1 %)."
    assert flops["parameters"]["operators"] == [
        ["aten.mm", 64, 66],
        ["aten.add", 32, 33],
    ]
    assert len(found["trials"]) == 2
    for trial in found["trials"]:
        assert "torch.distributed.run" not in trial["command"]
        assert trial["command"].endswith("--world-size=64")
        assert {file["kind"] for file in trial["artifacts"]} == {"log", "records", "telemetry"}
    page = client.get(f"/ui/runs/{found['id']}").text
    assert "1 trial a side" in page
    assert "32 TFLOP" in page
    assert "aten.mm: 64 -&gt; 66" in page


def test_a_candidate_that_cannot_be_counted_is_broken(client: TestClient):
    found = run(client, "--layers=41")
    assert found["verdict"] == "broken"
    assert "It exited with 1. training.fsdp of 41 layers cannot be cut into 64" in found["headline"]


def test_a_suite_without_a_static_case_is_refused_in_words(client: TestClient):
    found = run(client, "--layers=33", suite="measured")
    assert (found["status"], found["failure_reason"]) == ("failed", "no_such_case")
    assert "None of these is a static case: never." in found["headline"]


def test_a_kind_that_there_is_not(client: TestClient):
    body = {"project": "p", "candidate": "main", "kind": "guessed"}
    response = client.post("/runs", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/kind"
