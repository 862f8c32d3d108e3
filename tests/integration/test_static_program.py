"""The program that counts, asked for by a service."""

from pathlib import Path

import pytest

from tests.integration.counting import run, service

pytestmark = pytest.mark.torch

MANIFEST = """\
version: 1
cases:
  - name: debug
    kind: static
    workload: training.fsdp
    with: {model: debug, seq_len: 32}
    world_sizes: [64]
"""


def test_parameters_that_are_kept_cost_memory_and_save_collectives(tmp_path: Path):
    with service(tmp_path, MANIFEST) as client:
        found = run(client, "--no-reshard")
    verdicts = {item["metric"]: item["verdict"] for item in found["comparisons"]}
    assert verdicts["static_num_collectives@all_gather"] == "improvement"
    assert verdicts["static_peak_bytes"] == "regression"
    assert verdicts["static_flops"] == verdicts["static_num_graph_breaks"] == "no_change"
    gathers = {i["metric"]: i["reasons"] for i in found["comparisons"]}
    assert gathers["static_num_collectives@all_gather"][0].startswith(
        "Collectives, all gather: 5 before, 3 now (-2"
    )
