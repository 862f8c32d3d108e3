"""Secrets are compared in constant time: `==` ends at the first byte that differs, which shows."""

import ast

import pytest

from tests.architecture.source import attributes, files, tree

SECRET = {"secret", "secret_sha256", "secret_key", "form_token", "signature"}


def equated(file: str) -> set[str]:
    """Names and attributes that a file compares by `==` or `!=`, in Python or in a query."""
    return {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
        for part in (node.left, *node.comparators)
        if isinstance(part, ast.Attribute | ast.Name)
    }


@pytest.mark.parametrize("file", files("service", "dashboards"))
def test_no_secret_is_compared_by_equality(file: str):
    assert not equated(file) & SECRET


def test_tokens_are_compared_in_constant_time():
    assert "hmac.compare_digest" in set(attributes("service/usecases/access.py"))
    assert "name" in equated("service/db/catalog.py")  # the search above does find comparisons
