"""Environment variables of what a worker starts. Nothing inherits the worker's own as they are."""

import os
from collections.abc import Mapping
from pathlib import Path

_BASIC = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_DEVICES = ("CUDA_VISIBLE_DEVICES",)
_FABRIC = ("NCCL_", "GLOO_", "UCX_", "FI_")
# What pip, uv and compilers need to reach an index and to build.
_BUILD = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CUDA_HOME", "SSL_CERT_FILE")
_INDEX = ("PIP_", "UV_")
_PROXY = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# Nothing of the user's or the system's configuration may run hooks, filters or helpers here.
_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# Version numbers are often asked of git, which trusts no repository whose owner is somebody else.
_TRUSTING = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


def of_trial(home: Path, threads_per_rank: int) -> dict[str, str]:
    """What a trial may see of the worker's, and what every trial is given."""
    given = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": str(threads_per_rank),
    }
    return _kept(os.environ, *_BASIC, *_DEVICES, prefixes=_FABRIC) | _TRUSTING | given


def of_setup(home: Path) -> dict[str, str]:
    """What a side's setup may see: enough to reach a package index and to compile."""
    names = (*_BASIC, *_DEVICES, *_BUILD, *_PROXY)
    return _kept(os.environ, *names, prefixes=_INDEX) | _TRUSTING | {"HOME": str(home)}


def of_git() -> dict[str, str]:
    """git's: ssh needs the user's home and agent."""
    return _kept(os.environ, "PATH", "HOME", "SSH_AUTH_SOCK", *_PROXY) | _GIT


def of_ours() -> dict[str, str]:
    """Of our own helpers: no secret of the worker's can be read from them."""
    return _kept(os.environ, *_BASIC)


def _kept(
    variables: Mapping[str, str], *names: str, prefixes: tuple[str, ...] = ()
) -> dict[str, str]:
    return {
        k: v for k, v in variables.items() if k in names or (prefixes and k.startswith(prefixes))
    }
