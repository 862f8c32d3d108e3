"""Keeps what is measured away from the service's data: as whom it runs, and what that may reach."""

import os
import pwd
from dataclasses import replace
from pathlib import Path

from runners import tree
from runners.account import Account
from runners.library import library
from service.config import Settings
from service.errors import Refused

# What others may pass through to reach what is theirs, and what they may not.
_OPEN = ("environments", "homes", "library", "mirrors", "worktrees")
_PRIVATE_FOLDERS, _PRIVATE_FILES = ("artifacts",), "paceline.db*"


def trial_account(settings: Settings) -> Account:
    """As whom set-up and trials run. Raises Refused where they cannot."""
    own = Account(
        max_processes=settings.max_trial_processes, max_file_bytes=settings.max_trial_file_bytes
    )
    name, is_root = settings.trial_user, os.geteuid() == 0
    if not name:
        if is_root and not settings.is_standalone:
            detail = (
                "The worker runs as root, and with it would whatever it measures. Set "
                "PACELINE_TRIAL_USER to a user who owns nothing: useradd --system "
                "--no-create-home paceline-trial"
            )
            raise Refused("trial_user", detail)
        return own
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError as error:
        detail = (
            f"PACELINE_TRIAL_USER is {name!r}, who is no user of this machine: "
            f"useradd --system --no-create-home {name}"
        )
        raise Refused("trial_user", detail) from error
    if uid == os.geteuid():
        return own
    if not is_root:
        detail = (
            f"PACELINE_TRIAL_USER is {name!r}, and only root can start what runs as another user. "
            "Run the worker as root, or leave the variable unset."
        )
        raise Refused("trial_user", detail)
    return replace(own, name=name)


def open_data_dir(settings: Settings) -> Account:
    """Make a worker's data folder, of which trials reach only what is theirs; gives their account.

    Raises Refused where they cannot reach even that.
    """
    account = trial_account(settings)
    data_dir = settings.data_dir.absolute()
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if account.is_own:
        return account
    for name in _OPEN:
        (data_dir / name).mkdir(exist_ok=True)
        account.let_pass(data_dir / name)
    for name in _PRIVATE_FOLDERS:
        (data_dir / name).mkdir(exist_ok=True)
        (data_dir / name).chmod(0o700)
    for path in data_dir.glob(_PRIVATE_FILES):
        path.chmod(0o600)
    account.let_pass(data_dir)
    lacks = account.lacks(library(data_dir) / "workloads" / "__main__.py", Path(tree.__file__))
    if lacks is not None:
        detail = (
            f"The user {account.name!r} (PACELINE_TRIAL_USER) cannot use this installation: "
            f"{lacks} Install it and put PACELINE_DATA_DIR where everybody may pass."
        )
        raise Refused("trial_user", detail)
    return account
