"""Where the packages of the peers lie: a folder of the benchmark's own, beside the environment.

They see our torch, and whatever both need has the version of our lock, so that the two sides of a
pair differ in their trainer only.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".peers"


def pins(pyproject: str) -> list[str]:
    """The dependency group `peers` of a pyproject.toml. Raises ValueError for an inexact one."""
    found: list[str] = tomllib.loads(pyproject)["dependency-groups"]["peers"]
    for pin in found:
        if "==" not in pin:
            raise ValueError(f"peers: {pin!r} is not exact; pin it with ==, or figures drift")
    return found


def install(folder: Path) -> None:
    """Install the group by uv, all but torch. Raises CalledProcessError without an index."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as excludes:
        print("torch", file=excludes, flush=True)
        subprocess.run(
            [
                *(Path(sys.executable).with_name("uv"), "pip", "install", "--quiet"),
                *("--python", sys.executable, "--target", folder, "--compile-bytecode"),
                *("--constraints", ROOT / "requirements.lock", "--excludes", excludes.name),
                *("--group", f"{ROOT / 'pyproject.toml'}:peers"),
            ],
            check=True,
        )


def packages(folder: Path = FOLDER, install: Callable[[Path], None] = install) -> Path:
    """The folder to put on PYTHONPATH; installed at first use and when the pins have changed."""
    wanted = "\n".join(pins((ROOT / "pyproject.toml").read_text()))
    stamp = folder / "pins.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing into {folder.name}/: {wanted.replace(chr(10), ', ')}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        install(folder)
        stamp.write_text(wanted)
    return folder
