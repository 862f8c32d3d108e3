"""The source of our packages as syntax trees, for tests of its shape."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("service", "workloads", "runners", "dashboards", "migrations")


def files(*folders: str) -> list[str]:
    """Python files below these folders, as paths from the root."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(), file)


def imports(file: str) -> set[str]:
    """Modules a file imports, wherever in it; `from a import b` gives `a` and `a.b`."""
    found: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def attributes(file: str) -> Iterator[str]:
    """Dotted names a file uses, such as `os.environ`."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def definitions(file: str) -> set[str]:
    """Names a module defines at its top."""
    found: set[str] = set()
    for node in tree(file).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def plugins(folder: str) -> list[str]:
    """Files of a plug-in folder, one plug-in each."""
    return [file for file in files(folder) if not file.endswith("__init__.py")]
