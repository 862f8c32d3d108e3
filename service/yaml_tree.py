"""A YAML document as nodes that know their lines, and as a value; and what nobody can use in it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from service.errors import ManifestError

# Where something is wrong, and what.
Complaint = tuple[Sequence[str | int], str]

# In no argument vector, in no database; and what a reader puts where bytes are no UTF-8.
_UNUSABLE = re.compile("[\0\ud800-\udfff\N{REPLACEMENT CHARACTER}]")
_UNUSABLE_TEXT = "holds a NUL, half a character or bytes that are no UTF-8; write it in UTF-8"

# PyYAML lets through what its constructors stumble over: `!!bool x`, 2024-13-45, 1:1:1...0, [[[[...
_STUMBLES = (
    yaml.YAMLError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    ValueError,
)


def load(text: str, source: str) -> tuple[yaml.Node | None, Any]:
    """The document as nodes and as a value. Raises ManifestError."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except _STUMBLES as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        detail = problem or f"a value cannot be read: {error}"
        raise ManifestError(source=source, line=line, field="(syntax)", detail=detail) from error


def unusable(tree: yaml.Node | None) -> Iterator[Complaint]:
    """Keys given twice, of which YAML would drop the first, and text that nothing can store."""
    seen: set[int] = set()  # an alias may lead back to its anchor
    todo: list[tuple[yaml.Node | None, tuple[str | int, ...]]] = [(tree, ())]
    while todo:
        node, path = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode) and _UNUSABLE.search(node.value):
            yield path, f"{node.value[:80]!r} {_UNUSABLE_TEXT}"
        elif isinstance(node, yaml.SequenceNode):
            todo += [(child, (*path, number)) for number, child in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            keys = Counter(str(key.value) for key, _ in node.value)
            for key, times in keys.items():
                if times > 1:
                    yield (*path, key), "this key is given twice; one of them would be ignored"
                if _UNUSABLE.search(key):
                    yield path, f"the key {key[:80]!r} {_UNUSABLE_TEXT}"
            todo += [(child, (*path, str(key.value))) for key, child in node.value]


def locate(tree: yaml.Node | None, path: Sequence[str | int]) -> tuple[Sequence[str | int], int]:
    """The part of `path` that makes sense in the document, and the line of its deepest node.

    Pydantic's paths go on where the document ends: to the variant of a union, or to `[key]`.
    """
    node, line, known = tree, tree.start_mark.line + 1 if tree else 1, []
    for part in path:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode) and part != "[key]":
            for key, value in node.value:
                if key.value == part:
                    child, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            child = node.value[part]
            line = child.start_mark.line + 1
        else:
            break
        known.append(part)
        node = child
    return known, line
