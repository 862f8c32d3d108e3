"""The lister and the command line made from a Config; a contract over every workload."""

import dataclasses
import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Literal

import pytest

pytest.importorskip("torch")

from workloads.__main__ import main, names, parser


@dataclass(frozen=True, kw_only=True)
class Config:
    layers: Annotated[int, "how deep"] = 2
    learning_rate: Annotated[float, "of AdamW"] = 0.1
    kind: Annotated[Literal["a", "b"], "of thing"] = "a"
    is_tied: Annotated[bool, "share weights"] = False
    label: Annotated[str, "free text"] = ""


def parsed(*arguments: str) -> Config:
    return Config(**vars(parser("some.thing", Config).parse_args(arguments)))


def test_without_options_the_config_is_the_default() -> None:
    assert parsed() == Config()


def test_options_have_the_types_of_their_fields() -> None:
    text = "--layers 3 --learning-rate 1e-3 --kind b --is-tied --label x"
    expected = Config(layers=3, learning_rate=1e-3, kind="b", is_tied=True, label="x")
    assert parsed(*text.split()) == expected


@pytest.mark.parametrize("wrong", ["--layers x", "--kind c", "--unknown 1"])
def test_a_wrong_option_is_a_usage_error(wrong: str) -> None:
    with pytest.raises(SystemExit) as error:
        parsed(*wrong.split())
    assert error.value.code == 2


def test_help_gives_text_default_and_choices() -> None:
    text = parser("some.thing", Config).format_help()
    assert "python -m workloads some.thing" in text
    assert "how deep (default: 2)" in text
    assert "{a,b}" in text


def test_list_names_every_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == names()
    assert "training.ddp" in names()


@pytest.mark.parametrize("arguments", [[], ["training.nothing"], ["models.decoder"]])
def test_a_name_that_is_none_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "training.ddp" in capsys.readouterr().err


@pytest.mark.parametrize("name", names())
def test_every_workload_keeps_the_contract(name: str) -> None:
    workload = import_module(f"workloads.{name}")
    config = workload.Config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.steps = 1
    assert config.steps > 0
    assert all(action.help for action in parser(name, workload.Config)._actions)
    assert list(inspect.signature(workload.run).parameters) == ["config", "dist"]
    assert workload.__doc__
