"""What readers of networks share: names of states, limits of loops, and attributes as JSON writes them."""

from __future__ import annotations

from math import isfinite
from typing import Final

from onchip.arch.sizes import GREATEST_TOTAL_BYTES
from onchip.errors import GraphError
from onchip.ir.operator import AttributeValue

NEXT: Final = "@next"
"""Suffix of a state's name: its value for the next inference."""
GREATEST_ITERATIONS: Final = 1000
"""Largest trip count of a loop that is unrolled."""
GREATEST_UNROLLED_NODES: Final = 20_000
"""Largest number of nodes that all loops of a network may become together."""
EXPECTED_OF_KEPT_LOOPS: Final = "a loop that can be unrolled, or whose tensors have one shape in every iteration"


def writable(value: AttributeValue) -> AttributeValue:
    """Return an attribute with text in place of numbers that JSON lacks: `inf`, `-inf`, `nan`."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return [writable(element) for element in value] if isinstance(value, list) else value


def ensure_of_a_size(workspace_bytes: int, written_bytes: int, place: str) -> None:
    """Raise GraphError for a loop that is not unrolled and needs more bytes than a network may have."""
    if workspace_bytes + written_bytes > GREATEST_TOTAL_BYTES:
        what = f"it stays one operator, which needs {workspace_bytes} bytes and writes {written_bytes}"
        raise GraphError(what, place, f"at most {GREATEST_TOTAL_BYTES}")
