"""What a worker's children see of its environment."""

from pathlib import Path

import pytest

from runners import variables

WORKER = {
    "PATH": "/usr/bin",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NCCL_DEBUG": "WARN",
    "HOME": "/home/worker",
    "SSH_AUTH_SOCK": "/agent",
    "PIP_INDEX_URL": "https://index",
    "https_proxy": "http://proxy",
    "CC": "clang",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "PACELINE_DATABASE_URL": "postgresql://secret",
    "PYTHONPATH": "/somewhere",
    "NCCLISH": "no prefix of ours",
}
TRUSTING = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", WORKER)


def test_a_trial_sees_only_what_is_allowed():
    assert variables.of_trial(Path("/scratch"), threads_per_rank=3) == {
        "PATH": "/usr/bin",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "WARN",
        "HOME": "/scratch",
        "TMPDIR": "/scratch",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "3",
        **TRUSTING,
    }


def test_a_set_up_reaches_an_index_and_a_compiler():
    assert variables.of_setup(Path("/home")) == {
        "PATH": "/usr/bin",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "PIP_INDEX_URL": "https://index",
        "https_proxy": "http://proxy",
        "CC": "clang",
        "HOME": "/home",
        **TRUSTING,
    }


def test_git_has_the_user_s_keys_and_no_configuration():
    found = variables.of_git()
    assert found["SSH_AUTH_SOCK"] == "/agent"
    assert found["HOME"] == "/home/worker"
    assert found["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert not any(name.startswith(("PACELINE_", "AWS_")) for name in found)


def test_our_own_helpers_hold_no_secret():
    assert set(variables.of_ours()) == {"PATH", "LD_LIBRARY_PATH"}
