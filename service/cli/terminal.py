"""What the command line prints: nothing that others wrote may steer the terminal."""

import re
import sys

from rich.text import Text

from dashboards.words import Outcome

# Colour codes and the like whole; then control characters other than tab and newline, and those
# that turn the direction of what follows.
_STEERING = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
_COLOURS = {"worse": "red", "broken": "red", "failed": "red", "better": "green", "same": "green"}


def plain(text: str) -> str:
    """The text without what steers a terminal."""
    return _STEERING.sub("", text)


def cell(text: str, style: str = "") -> Text:
    """The text for a table or console of rich, which would read brackets in a string as markup."""
    return Text(plain(text), style)


def mark(outcome: Outcome) -> Text:
    """Symbol and word of an outcome, in the colour of its kind."""
    return Text(f"{outcome.symbol} {outcome.word}", _COLOURS.get(outcome.style, "yellow"))


def minute(moment: str | None) -> str:
    """A time of the API's, to the minute."""
    return "" if moment is None else moment[:16].replace("T", " ")


def complain(text: str) -> None:
    """Say on stderr what went wrong."""
    print(f"paceline: {plain(text)}", file=sys.stderr)
