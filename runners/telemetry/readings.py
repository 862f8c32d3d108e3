"""Readings that may not be had: absent then, and why is logged once."""

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


class Readings:
    """Takes readings, which may fail by these errors."""

    def __init__(self, *errors: type[Exception]) -> None:
        self._errors = errors
        self._told: set[str] = set()

    def take(self, **reads: Callable[[], Any]) -> dict[str, Any]:
        """What each read gives, by name; those that fail, or give None, are left out."""
        found = {}
        for name, read in reads.items():
            try:
                value = read()
            except self._errors as error:
                self._tell(name, error)
                continue
            if value is not None:
                found[name] = value
        return found

    def _tell(self, name: str, error: Exception) -> None:
        if name not in self._told:
            self._told.add(name)
            logger.info("no %s in the telemetry: %s", name, error)
