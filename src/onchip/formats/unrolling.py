"""How far loops are unrolled, whatever format they stand in; one that goes further stays one operator."""

from __future__ import annotations

from typing import Final

from onchip.errors import GraphError
from onchip.formats.sizes import GREATEST_TOTAL_BYTES

GREATEST_ITERATIONS: Final = 1000
"""Of one loop."""
GREATEST_UNROLLED_NODES: Final = 20_000
"""That all loops of a network may become together."""
EXPECTED_OF_KEPT_LOOPS: Final = "a loop that can be unrolled, or whose tensors have one shape in every iteration"


def ensure_of_a_size(workspace_bytes: int, written_bytes: int, place: str) -> None:
    """Raise GraphError for a loop that stays and needs more bytes than any network may have."""
    if workspace_bytes + written_bytes > GREATEST_TOTAL_BYTES:
        what = f"it stays one operator, which needs {workspace_bytes} bytes and writes {written_bytes}"
        raise GraphError(what, place=place, expected=f"at most {GREATEST_TOTAL_BYTES}")
