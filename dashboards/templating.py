"""Templates: autoescaped, strict about names, with the formats as filters."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dashboards import assets, format, words
from dashboards.sections import comparison_outcome
from service.api.access import Visitor

ROOT = "/ui"


def render(template: str, values: Mapping[str, Any], visitor: Visitor | None = None) -> str:
    """HTML of a template with these values, with the forms its visitor may use."""
    return _environment().get_template(template).render(values, visitor=visitor)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dashboards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = format.typeset
    environment.globals |= {
        "asset_url": lambda name: f"{ROOT}{assets.path(name)}",
        "comparison_outcome": comparison_outcome,
        "failures": words.FAILURES,
        "fmt": format,
        "intents": words.INTENTS,
        "outcome": words.outcome,
        "statuses": words.STATUSES,
        "ui": ROOT,
        "verdicts": words.VERDICTS,
    }
    return environment
