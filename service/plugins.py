"""Plug-ins: a module of a folder, found by its name when it is needed and not before."""

import importlib
import pkgutil
from types import ModuleType

from service.errors import NotFound


def names(package: str) -> list[str]:
    """Names of the plug-ins in a package such as `runners.launchers`."""
    path = importlib.import_module(package).__path__
    return sorted(module.name for module in pkgutil.iter_modules(path))


def load(package: str, name: str) -> ModuleType:
    """The plug-in of that name. Raises NotFound."""
    if name not in names(package):
        raise NotFound(package.rpartition(".")[2].removesuffix("s"), name)
    return importlib.import_module(f"{package}.{name}")
