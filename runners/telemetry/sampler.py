"""Samples a trial's telemetry from its launch to its end, in a thread of the worker."""

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from contextvars import copy_context
from pathlib import Path
from typing import Any

from runners.telemetry.gpu import Gpus
from runners.telemetry.host import Host

logger = logging.getLogger(__name__)

_STOP_S = 5.0  # NVML may never answer once a GPU has fallen off its bus


class Sampler:
    """Takes a sample at once, then every period, and one at the end; writes each to a file.

    `open_gpus` is called in the thread, for a driver may take its time. The trial goes on whatever
    happens here.
    """

    period_s = 1.0

    def __init__(self, path: Path, host: Host, open_gpus: Callable[[], Gpus]) -> None:
        self._path, self._host, self._open_gpus = path, host, open_gpus
        self._samples: list[dict[str, Any]] = []
        self._own_s: float | None = None
        self._stopping = threading.Event()
        context = copy_context()  # whose ids the log tells
        self._thread = threading.Thread(
            target=context.run, args=[self._run], name="telemetry", daemon=True
        )
        self._thread.start()

    @property
    def samples(self) -> Sequence[dict[str, Any]]:
        """Those taken so far, oldest first."""
        return tuple(self._samples)

    def stop(self, cpu_time_s: float | None = None) -> None:
        """Take the last sample, in which the trial has spent that much; twice is harmless."""
        if not self._stopping.is_set():
            self._own_s = cpu_time_s
            self._stopping.set()
            self._thread.join(_STOP_S)
            if self._thread.is_alive():
                logger.warning("the telemetry of a trial does not answer; it is let go")

    def _run(self) -> None:
        try:
            self._sample_to_the_end()
        except Exception:  # the edge of a thread that nobody waits for: told here or nowhere
            logger.exception("the telemetry of a trial broke off")

    def _sample_to_the_end(self) -> None:
        # A file of ours alone: who runs as our user may have put a link in its place.
        with self._path.open("x", buffering=1) as file, closing(self._open_gpus()) as gpus:
            is_last = False
            while not is_last:
                is_last = self._stopping.wait(self.period_s if self._samples else 0.0)
                sample = {"at": time.time()} | self._host.read(self._own_s) | gpus.read()
                self._samples.append(sample)
                file.write(json.dumps(sample) + "\n")
