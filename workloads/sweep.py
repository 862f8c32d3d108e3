"""Options of workloads that time operations: sizes from small to large, repeats, steps."""

from dataclasses import dataclass
from typing import Annotated, Literal

Dtype = Annotated[Literal["float32", "bfloat16", "float16"], "of the numbers"]
Repeats = Annotated[int, "operations timed together; a time is their mean"]
Steps = Annotated[int, "how often everything is timed"]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The command line that they share. A step times every size once.

    Raises ValueError for options that make no sizes.
    """

    min_bytes: Annotated[int, "smallest message"] = 4 * 1024
    max_bytes: Annotated[int, "no message is larger"] = 16 * 1024**2
    factor: Annotated[int, "from one size to the next"] = 16
    repeats: Repeats = 5
    steps: Steps = 100

    def __post_init__(self) -> None:
        at_least(1, min_bytes=self.min_bytes, repeats=self.repeats)
        at_least(2, factor=self.factor)
        at_least(self.min_bytes, max_bytes=self.max_bytes)

    def sizes(self) -> list[int]:
        """Message sizes in bytes, ascending."""
        sizes = [self.min_bytes]
        while sizes[-1] * self.factor <= self.max_bytes:
            sizes.append(sizes[-1] * self.factor)
        return sizes


def at_least(least: int, **options: int) -> None:
    """Raises ValueError for the first option that is smaller."""
    for name, value in options.items():
        if value < least:
            raise ValueError(f"{name} is {value}; give at least {least}")
