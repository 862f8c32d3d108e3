"""What is said of our workloads' speed against others', and what the peers are installed from."""

import math

import pytest

from benchmarks import _peer, peers
from benchmarks._peer_packages import ROOT, packages, pins
from workloads.__main__ import names


def test_a_ratio_is_the_geometric_mean_with_students_interval():
    ratio = peers.ratio_of([math.log(0.9), math.log(1.0), math.log(1.0 / 0.9)])
    half_width = 4.302653 * -math.log(0.9) / math.sqrt(3)  # t of 2 degrees at 97.5 %
    assert ratio.mean == pytest.approx(1.0)
    assert ratio.low == pytest.approx(math.exp(-half_width), rel=1e-6)
    assert ratio.high == pytest.approx(math.exp(half_width), rel=1e-6)


def test_swapping_the_sides_inverts_a_ratio():
    logs = [0.02, 0.05, 0.03, 0.07]
    there, back = peers.ratio_of(logs), peers.ratio_of([-log for log in logs])
    assert (back.low, back.mean, back.high) == pytest.approx(
        (1 / there.high, 1 / there.mean, 1 / there.low)
    )


def test_one_pair_has_no_interval():
    with pytest.raises(ValueError, match="measure at least 2"):
        peers.ratio_of([0.1])


@pytest.mark.parametrize(("low", "is_enough"), [(0.97, True), (0.969, False), (1.2, True)])
def test_the_lower_end_decides(low: float, is_enough: bool):
    assert peers.Ratio(mean=1.3, low=low, high=1.5).is_enough is is_enough


@pytest.mark.parametrize(("logs", "code"), [([0.0, 0.001, 0.0], 0), ([0.3, -0.3, 0.3], 1)])
def test_the_exit_code_says_whether_all_are_fast_enough(monkeypatch, capsys, logs, code):
    monkeypatch.setattr("sys.argv", ["peers", "--modes", "single", "--peers", "fabric"])
    monkeypatch.setattr(peers, "effects", lambda *_: logs)
    assert peers.main() == code
    assert capsys.readouterr().out.splitlines()[-1].endswith("no" if code else "yes")


def test_a_peer_is_asked_only_for_what_it_can():
    found = peers.combinations(["single", "ddp", "fsdp"], ["transformers", "fabric"])
    assert ("fsdp", "fabric") in found
    assert ("fsdp", "transformers") not in found
    assert len(found) == 5


@pytest.mark.parametrize("mode", peers.NUM_RANKS)
def test_both_sides_are_asked_for_the_same(mode: str):
    case = peers.case_of(mode, "small", 60.0)
    assert case.arguments[0] in names()
    assert (case.world_size, case.threads_per_rank) == (peers.NUM_RANKS[mode], 1)


@pytest.mark.parametrize(
    "extra", [["--precision", "bfloat16"], ["--accumulate", "2"], ["--clip", "0"]]
)
def test_a_side_refuses_what_a_peer_would_not_heed(extra: list[str], capsys):
    arguments = [*peers.case_of("single", "debug", 60.0).arguments, "--trainer", "fabric"]
    with pytest.raises(SystemExit):
        _peer.main([*arguments, *extra])
    assert f"unrecognized arguments: {extra[0]}" in capsys.readouterr().err


def test_pins_are_exact():
    assert len(pins((ROOT / "pyproject.toml").read_text())) == 3
    with pytest.raises(ValueError, match="pin it with =="):
        pins('[dependency-groups]\npeers = ["transformers>=5"]')


def test_the_lock_knows_no_peer():
    locked = (ROOT / "requirements.lock").read_text()
    wanted = [pin.partition("==")[0] for pin in pins((ROOT / "pyproject.toml").read_text())]
    assert not [name for name in wanted if f"\n{name}==" in locked]


def test_packages_are_installed_once_and_again_for_other_pins(tmp_path):
    installed = []
    folder = tmp_path / "peers"

    def install(target):
        target.mkdir()
        installed.append(target)

    assert packages(folder, install) == packages(folder, install) == folder
    assert len(installed) == 1
    (folder / "pins.txt").write_text("transformers==4.0.0")
    packages(folder, install)
    assert len(installed) == 2
