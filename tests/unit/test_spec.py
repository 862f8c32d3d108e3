"""What a trial sees of the worker's environment."""

from pathlib import Path

from runners.spec import trial_environment

WORKER = {
    "PATH": "/usr/bin",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NCCL_DEBUG": "WARN",
    "HOME": "/home/worker",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "PACELINE_DATABASE_URL": "postgresql://secret",
    "PYTHONPATH": "/somewhere",
    "NCCLISH": "no prefix of ours",
}


def seen(**overrides: str) -> dict[str, str]:
    return trial_environment(
        WORKER, scratch=Path("/scratch"), threads_per_rank=3, overrides=overrides
    )


def test_only_what_is_allowed_passes():
    assert seen() == {
        "PATH": "/usr/bin",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "WARN",
        "HOME": "/scratch",
        "TMPDIR": "/scratch",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "3",
    }


def test_a_side_overrides_the_worker_and_us():
    environment = seen(NCCL_DEBUG="INFO", OMP_NUM_THREADS="1", NCCL_ALGO="Ring")
    assert environment["NCCL_DEBUG"] == "INFO"
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["NCCL_ALGO"] == "Ring"
