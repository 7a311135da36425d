"""How far loops are unrolled, whatever format they stand in; one that goes further stays one operator."""

from __future__ import annotations

from typing import Final

GREATEST_ITERATIONS: Final = 1000
"""Of one loop."""
GREATEST_UNROLLED_NODES: Final = 20_000
"""That all loops of a network may become together."""
EXPECTED_OF_KEPT_LOOPS: Final = "a loop that can be unrolled, or whose tensors have one shape in every iteration"
