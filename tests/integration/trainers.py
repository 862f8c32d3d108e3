"""A git repository of small real rank programs: one that works, and one for each way to fail.

The program needs no torch: two ranks hash and sort for a few milliseconds a step. Each variant is a
branch on top of main, and main is the program that works.
"""

from collections.abc import Iterable
from pathlib import Path

from examples.tinylm.make_repository import WORKLOADS, commit, git

PROGRAM = '''"""Hashes and sorts instead of training. Standard library only."""

import argparse
import hashlib
import os
import signal
import sys
import time
from pathlib import Path

from paceline_records import Records, rank_file
from paceline_turns import Turns

ROUNDS = 60
BLOCK = bytes(range(256)) * 64


def work(seed: int) -> int:
    """ROUNDS rounds of real work, some 3 ms in all."""
    for _ in range(ROUNDS):
        digest = hashlib.sha256(BLOCK + seed.to_bytes(4, "big")).digest()
        seed = sum(sorted(digest)[:4])
    return seed


def main() -> None:
    """Run as one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    num_steps = parser.parse_args().steps
    records = Records()
    turns = Turns(num_steps, records)
    # before
    step = seed = 0
    while turns.step():
        seed = work(seed)
        loss = 5.0 / (1 + step)
        # during
        turns.note(tokens=256, loss=loss)
        step += 1
    records.close()
    # after


if __name__ == "__main__":
    main()
'''

# In the place of torch's: starts ranks at once, where torchrun imports torch first.
LAUNCHER = '''"""Starts ranks, each in a session of its own, and ends them together."""

import os
import signal
import subprocess
import sys
import time

options = [word for word in sys.argv[1:] if word.startswith("--")]
split = next(i for i, word in enumerate(sys.argv) if i and not word.startswith("--"))
program, (count,) = sys.argv[split:], [o for o in options[: split - 1] if "nproc" in o]
num_ranks = int(count.partition("=")[2])


def end(*_signal: object) -> None:
    for rank in ranks:
        rank.terminate()


ranks: list[subprocess.Popen[bytes]] = []
signal.signal(signal.SIGTERM, end)
for number in range(num_ranks):
    variables = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": num_ranks}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    argv = [sys.executable, "-u", *program]
    ranks.append(subprocess.Popen(argv, env=environment, start_new_session=True))
while any(rank.poll() is None for rank in ranks) and not any(rank.returncode for rank in ranks):
    time.sleep(0.05)
end()
sys.exit(any([rank.wait() for rank in ranks]))
'''

MANIFEST = """\
version: 1
cases:
  - name: hashing
    script: train.py
    args: ["--steps", "{steps}"]
    world_sizes: [2]
    warmup_steps: 10
    arrangement: lockstep
    timeout_s: {timeout_s}
policy:
  metrics:
    step_time_s: {{min_effect: 0.05, gate: true}}
  max_pairs: 5
"""

_ONE_RANK_AT_STEP_20 = "if step == 20 and records.rank == 1:\n            "

# What a variant changes in train.py: a text that stands there once, and what takes its place.
CHANGES = {
    "ok": ('"""Hashes and sorts instead', '"""Sorts and hashes instead'),
    "slow": ("ROUNDS = 60", "ROUNDS = 69"),
    "slower": ("ROUNDS = 60", "ROUNDS = 120"),
    "exit3": ("# during", f"{_ONE_RANK_AT_STEP_20}sys.exit(3)"),
    "hang": ("# during", f"{_ONE_RANK_AT_STEP_20}time.sleep(3600)"),
    "sigkill": ("# during", f"{_ONE_RANK_AT_STEP_20}os.kill(os.getpid(), signal.SIGKILL)"),
    "nan_loss": ("# during", 'loss = loss if step < 20 else float("nan")'),
    "half_record": (
        "# after",
        'with rank_file(Path(os.environ["PACELINE_RECORDS"]), records.rank).open("a") as file:\n'
        '        file.write(\'{"v": 1, "kind": "st\')',
    ),
    "no_step": ("# before", "records.close()\n    return"),
}


def make_trainer_repository(
    directory: Path,
    variants: Iterable[str],
    *,
    steps: int = 150,
    timeout_s: float = 60,
    has_launcher: bool = False,
) -> dict[str, str]:
    """Commit of `main` and of every variant: those of CHANGES, and `bad_manifest`.

    `steps` and `timeout_s` go into the manifest; `has_launcher` puts a launcher without torch in
    torchrun's place. Raises KeyError for an unknown variant.
    """
    directory.mkdir(parents=True)
    git(directory, "init", "--initial-branch=main", "--object-format=sha1", "--template=")
    for name in ("turns", "records"):
        source = (WORKLOADS / f"{name}.py").read_text(encoding="utf-8")
        (directory / f"paceline_{name}.py").write_text(source, encoding="utf-8")
    (directory / "train.py").write_text(PROGRAM, encoding="utf-8")
    if has_launcher:
        folder = directory / "torch" / "distributed"
        folder.mkdir(parents=True)
        for package in (folder.parent, folder):
            (package / "__init__.py").touch()
        (folder / "run.py").write_text(LAUNCHER, encoding="utf-8")
    manifest = MANIFEST.format(steps=steps, timeout_s=timeout_s)
    (directory / "paceline.yml").write_text(manifest, encoding="utf-8")
    commits = {"main": commit(directory, "Hash and sort", hour=9)}

    for variant in variants:
        git(directory, "switch", "--quiet", "--create", variant, "main")
        if variant == "bad_manifest":
            broken = manifest.replace("world_sizes: [2]", "world_sizes: [2")
            (directory / "paceline.yml").write_text(broken, encoding="utf-8")
        else:
            (directory / "train.py").write_text(changed(variant), encoding="utf-8")
        commits[variant] = commit(directory, f"Make it {variant}", hour=10)
    git(directory, "switch", "--quiet", "main")
    return commits


def changed(variant: str) -> str:
    """train.py of a variant."""
    old, new = CHANGES[variant]
    assert PROGRAM.count(old) == 1
    return PROGRAM.replace(old, new)
