"""What doctor's checks make of what they see."""

from pathlib import Path

import pytest

from service.config import Settings
from service.doctor import machine, stores
from service.doctor.finding import Level, failure, ok, warning, worst_first

GIB = 2**30


def test_the_worst_comes_first_and_equals_keep_their_order():
    findings = [
        ok("a", "fine"),
        warning("b", "hm", remedy="look"),
        failure("c", "no", remedy="act"),
        ok("d", "fine"),
        failure("e", "no", remedy="act"),
    ]
    assert [finding.check for finding in worst_first(findings)] == ["c", "e", "b", "a", "d"]


@pytest.mark.parametrize(
    ("skew_s", "level", "words"),
    [
        (0.0, Level.OK, "0.0 s"),
        (-1.9, Level.OK, "1.9 s"),
        (30.0, Level.WARNING, "30 s behind"),
        (-30.0, Level.WARNING, "30 s ahead"),
    ],
)
def test_clocks_that_differ_are_told_which_way(skew_s: float, level: Level, words: str):
    finding = stores.clock(skew_s)
    assert finding.level is level
    assert words in finding.detail


@pytest.mark.parametrize(
    ("free_bytes", "level"),
    [(50 * GIB, Level.OK), (5 * GIB, Level.WARNING), (GIB // 2, Level.FAILURE)],
)
def test_little_room_warns_and_none_fails(free_bytes: int, level: Level):
    assert stores.room("data", Path("/data"), free_bytes).level is level


@pytest.mark.parametrize(
    ("policy", "level"), [("noeviction", Level.OK), ("allkeys-lru", Level.WARNING)]
)
def test_a_redis_that_forgets_is_told(policy: str, level: Level):
    assert stores.redis_policy("7.4.1", policy).level is level


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("git version 2.39.5", Level.OK),
        ("git version 2.17.1 (Apple Git-12)", Level.OK),
        ("git version 1.8.3", Level.FAILURE),
        ("", Level.FAILURE),
    ],
)
def test_an_old_git_is_refused(words: str, level: Level):
    assert machine.git_version(words).level is level


def test_messages_of_standalone_need_no_broker():
    assert stores.broker(Settings()).level is Level.OK


def test_a_broker_that_is_not_there_fails_with_the_remedy():
    finding = stores.broker(Settings(broker_url="redis://127.0.0.1:9/0"))
    assert finding.level is Level.FAILURE
    assert "PACELINE_BROKER_URL" in finding.remedy


def test_another_broker_is_told():
    assert stores.broker(Settings(broker_url="amqp://somewhere")).level is Level.WARNING


def test_an_artifact_store_takes_gives_and_deletes(tmp_path: Path):
    finding = stores.artifacts(Settings(artifact_url=f"file://{tmp_path / 'store'}"))
    assert finding.level is Level.OK
    assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize("url", ["file:///dev/null/store", "nothing://at/all"])
def test_an_artifact_store_that_does_not_fails_with_the_remedy(url: str):
    finding = stores.artifacts(Settings(artifact_url=url))
    assert finding.level is Level.FAILURE
    assert "PACELINE_ARTIFACT_URL" in finding.remedy


def test_disks_are_those_of_data_and_scratch(tmp_path: Path):
    checks = [f.check for f in stores.disks(Settings(data_dir=tmp_path / "not" / "there"))]
    assert checks == ["disk (data)", "disk (scratch)"]


def test_this_machine_has_git_and_what_the_guard_needs():
    assert machine.git().level is Level.OK
    assert machine.guard().level is Level.OK


def test_without_git_measuring_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git().level is Level.FAILURE


@pytest.mark.torch
def test_torchrun_starts():
    finding = machine.torchrun()
    assert finding.level is Level.OK, finding.detail
