"""Each suite of examples/suites/ is a paceline.yml, and its workloads take the options it gives."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from service.domain import Case
from service.manifest import parse
from workloads import groups
from workloads.__main__ import names, parser
from workloads.collectives import Collective, check_divides
from workloads.models.decoder import PRESETS
from workloads.recipe import Recipe, make_decoder
from workloads.static.world import fake_world
from workloads.training import pipeline

FOLDER = Path(__file__).parents[2] / "examples" / "suites"
LARGEST = {"smoke": 2, "standard": 8, "scale": 512}
GPUS_PER_NODE = 8
NUM_BLOCKS = 16  # no suite has more stages

SUITES = {path.stem: parse(path.read_text(), path.name) for path in FOLDER.glob("*.yml")}
CASES = {
    f"{suite}-{case.name}": case
    for suite, manifest in SUITES.items()
    for cases in manifest.entries.values()
    for case in cases
}


def each_case(of: str = "") -> pytest.MarkDecorator:
    """A test for every case whose workload begins so."""
    chosen = {name: case for name, case in CASES.items() if case.workload.startswith(of)}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen)


def workload_of(case: Case) -> Any:
    assert case.workload in names()
    return import_module(f"workloads.{case.workload}")


def config_of(case: Case) -> Any:
    """What the workload makes of the case's arguments."""
    kind = workload_of(case).Config
    return kind(**vars(parser(case.workload, kind).parse_args(case.arguments)))


@pytest.fixture
def shrink_decoder(monkeypatch: pytest.MonkeyPatch) -> Callable[[Recipe], None]:
    """Leaves of a config's preset the heads and experts that its ranks divide, and few blocks."""

    def shrink(config: Recipe) -> None:
        sizes = PRESETS[config.model]
        num_layers = NUM_BLOCKS if isinstance(config, pipeline.Config) else 1
        small = {"vocab_size": 128, "dim": 2 * sizes.num_heads, "hidden_dim": 16}
        monkeypatch.setitem(PRESETS, config.model, replace(sizes, num_layers=num_layers, **small))

    return shrink


def test_each_suite_reaches_its_size_and_no_further() -> None:
    reached = {
        name: max(case.world_size for cases in manifest.entries.values() for case in cases)
        for name, manifest in SUITES.items()
    }
    assert reached == LARGEST


@each_case()
def test_a_case_names_a_workload_that_takes_its_options(case: Case) -> None:
    assert config_of(case).steps > 0


@each_case("comm.")
def test_a_collective_has_groups_and_parts_for_all(case: Case) -> None:
    config = config_of(case)
    local_world_size = min(case.world_size, GPUS_PER_NODE)
    members = groups.partition(config.group, case.world_size, local_world_size)[0]
    if isinstance(config, Collective):
        check_divides(config, case.workload.removeprefix("comm."), len(members))


@each_case("training.")
def test_a_decoder_can_be_cut_over_the_ranks(
    case: Case, shrink_decoder: Callable[[Recipe], None]
) -> None:
    config = config_of(case)
    shrink_decoder(config)
    with fake_world(case.world_size, rank=case.world_size - 1) as dist:
        parallel = workload_of(case).parallelize(make_decoder(config, dist), config, dist)
    assert case.world_size % parallel.ranks_per_replica == 0
    assert config.batch_size % config.accumulate == 0


def test_strong_scaling_keeps_the_batch_of_the_job() -> None:
    for kind in ("strong-ddp", "strong-fsdp"):
        cases = [
            case for name, (case, *_) in SUITES["scale"].entries.items() if name.startswith(kind)
        ]
        assert {case.world_size * config_of(case).batch_size for case in cases} == {512}
