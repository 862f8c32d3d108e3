"""Runs every benchmark, or those named: python -m benchmarks [NAME ...]."""

import subprocess
import sys
from pathlib import Path

from runners.child import bound

# Needs a GPU, and has a command of its own.
_APART = {"gpu_check"}


def names() -> list[str]:
    """Benchmarks, by module name."""
    files = Path(__file__).parent.glob("[!_]*.py")
    return sorted(path.stem for path in files if path.stem not in _APART)


def main() -> int:
    """Run them one after the other; the exit code says whether all of them ended well."""
    failed = []
    for name in sys.argv[1:] or names():
        print(f"\n== {name}", flush=True)
        command = bound([sys.executable, "-m", f"benchmarks.{name}"])
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
