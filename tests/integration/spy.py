"""Looks around as a thief would, in a set-up and in a trial of test_isolation."""

import json
import os
import sys
from pathlib import Path

DATA = Path(__file__).parents[2]


def can(action):
    try:
        action()
    except OSError:
        return False
    return True


def secrets():
    """Processes whose environment can be read and names the database."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if b"PACELINE_DATABASE_URL" in (folder / "environ").read_bytes():
                    yield folder.name
            except OSError:
                continue


def found():
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    ours = [name for name in os.environ if name.startswith("PACELINE_")]
    return {
        "user": os.getuid(),
        "groups": os.getgroups(),
        "capabilities": int(status["CapEff"], 16) | int(status["CapPrm"], 16),
        "no_new_privs": int(status["NoNewPrivs"]),
        "environments_of_others": list(secrets()),
        "variables": sorted(set(ours) - {"PACELINE_TRIAL_ID", "PACELINE_SLOT_ID"}),
        "lists_data": can(lambda: list(DATA.iterdir())),
        "lists_artifacts": can(lambda: list((DATA.parent / "artifacts").iterdir())),
        "lists_environments": can(lambda: list((DATA / "environments").iterdir())),
        "writes_environment": can(lambda: (Path(sys.prefix) / "mine").touch()),
        "signals_root": can(lambda: os.kill(1, 0)),
    }


if __name__ == "__main__":
    Path("set-up.json").write_text(json.dumps(found()))
    # Whatever starts this Python from now on leaves a process behind, as far as it can.
    (packages,) = Path(sys.prefix).glob("lib/python*/site-packages")
    leave = "subprocess.Popen(['sleep', '612'], env={}, start_new_session=True)"
    (packages / "leave.pth").write_text(f"import subprocess; {leave}")
