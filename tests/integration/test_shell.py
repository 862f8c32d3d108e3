"""Commands under a guard, as set-up and git use them."""

import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from runners import shell
from service.errors import Interrupted


def test_output_and_end(tmp_path: Path):
    ran = shell.run([sys.executable, "-c", "print(1); exit(3)"], {}, tmp_path, timeout_s=60)
    assert ran.output == "1\n"
    assert ran.failed == "exited with 3"


def test_a_killed_guard_is_no_failure_of_the_command(tmp_path: Path):
    """Nobody knows how the command went, and nothing of it is alive."""

    def kill_guard() -> None:
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):  # nor a zombie, which has no command line
                if "runners.guard" in child.cmdline() and child.children():
                    child.kill()

    argv = [sys.executable, "-c", "import time; time.sleep(600)", "unguarded"]
    with pytest.raises(Interrupted, match="guard ended with -9"):
        shell.run(argv, {}, tmp_path, timeout_s=60, check=kill_guard)
    assert not any("unguarded" in process.cmdline() for process in psutil.Process().children(True))
