"""Shapes as an option of the command line."""


def shapes(option: str, text: str, num_dims: int) -> list[tuple[int, ...]]:
    """The shapes of a text such as `64x64x64,128x64x32`.

    Raises ValueError, which names the option, for a text that has not so many dims of at least 1.
    """
    found = [tuple(_size(size) for size in shape.split("x")) for shape in text.split(",")]
    if any(len(shape) != num_dims or min(shape) < 1 for shape in found):
        example = ",".join("x".join([size] * num_dims) for size in ("64", "128"))
        raise ValueError(f"{option} is {text!r}; give shapes such as {example}")
    return found


def _size(text: str) -> int:
    return int(text) if text.isdecimal() else 0
