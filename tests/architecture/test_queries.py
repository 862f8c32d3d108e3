"""Queries live in service/db; pages and statistics see no session's rows."""

import ast

import pytest

from tests.architecture.source import files, imports, tree

OURS = files("service", "runners", "dashboards")
OUTSIDE = [file for file in OURS if not file.startswith("service/db/")]
STATEMENTS = {f"sqlalchemy.{name}" for name in ("select", "update", "delete", "insert", "text")}
ASKING = {"execute", "scalar", "scalars", "query"}


def asks(file: str) -> list[str]:
    """Calls of a file that put a statement to a session or connection."""
    return [
        f"{node.func.value.id}.{node.func.attr}"
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("session", "connection", "engine")
        and node.func.attr in ASKING
    ]


@pytest.mark.parametrize("file", OUTSIDE)
def test_nothing_outside_the_database_layer_writes_queries(file: str):
    assert not imports(file) & STATEMENTS
    assert not asks(file)


def test_the_database_layer_does():
    inside = [file for file in OURS if file.startswith("service/db/")]
    assert any(imports(file) & STATEMENTS for file in inside)
    assert any(asks(file) for file in inside)


@pytest.mark.parametrize("file", [file for file in OURS if file.startswith("service/usecases/")])
def test_use_cases_never_commit(file: str):
    calls = {
        node.func.attr
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not calls & {"commit", "rollback", "begin"}


@pytest.mark.parametrize("file", files("dashboards/figures"))
def test_figures_know_no_database(file: str):
    assert not {
        name for name in imports(file) if name.startswith(("sqlalchemy", "service.db.models"))
    }
