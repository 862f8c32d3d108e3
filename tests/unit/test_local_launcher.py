"""The local launcher: spec in, exact argv and environment out."""

from pathlib import Path

from runners.launchers import local
from tests import factories


def test_the_exact_command(tmp_path: Path):
    assert local.command(factories.launch_spec(tmp_path)) == [
        "/opt/env/bin/python",
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        "--rdzv-id=7d3c",
        "--max-restarts=0",
        "train.py",
        "--steps",
        "400",
    ]


def test_a_module_is_started_as_one(tmp_path: Path):
    spec = factories.launch_spec(tmp_path, program=("-m", "workloads", "training.ddp"))
    assert local.command(spec)[-3:] == ["-m", "workloads", "training.ddp"]


def test_what_is_not_distributed_is_started_by_python_itself(tmp_path: Path):
    program = ("-m", "workloads.static", "training.fsdp", "--world-size=64")
    spec = factories.launch_spec(tmp_path, program=program, world_size=1, is_distributed=False)
    assert local.command(spec) == ["/opt/env/bin/python", *program]


def test_the_environment_is_the_spec_s_with_the_tag(tmp_path: Path):
    assert local.environment(factories.launch_spec(tmp_path)) == {
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin",
        "GLOO_SOCKET_IFNAME": "lo",
        "PACELINE_TRIAL_ID": "7d3c",
        "PACELINE_SLOT_ID": "00000000-0000-0000-0000-000000000007",
    }


def test_a_side_may_choose_its_interface_but_not_its_tag(tmp_path: Path):
    chosen = {"GLOO_SOCKET_IFNAME": "eth0", "PACELINE_TRIAL_ID": "other"}
    environment = local.environment(factories.launch_spec(tmp_path, environment=chosen))
    assert environment["GLOO_SOCKET_IFNAME"] == "eth0"
    assert environment["PACELINE_TRIAL_ID"] == "7d3c"


def test_a_trial_that_printed_nothing_has_an_empty_log(tmp_path: Path):
    assert local.logs(local.Handle(trial=None, log=tmp_path / "log.txt")) == ""  # type: ignore[arg-type]
