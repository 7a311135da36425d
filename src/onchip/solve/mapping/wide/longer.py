"""Layers with a loop somewhat longer than it has to be, whose even mappings may be better once they are cut off.

Of 512 iterations no even mapping has a factor of 3. Those of 540 have, and of them only 512 are executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from onchip.ir.layer import LOOPS, Layer
from onchip.solve.mapping.factors import prime_counts

LARGEST_PRIME: Final = 5
"""Of a longer loop, so that it may be cut in many places."""
MOST_LENGTHENED: Final = 6
"""A loop is at most one part in so many longer."""


def longer_layers(layer: Layer) -> Iterator[Layer]:
    """The layer with one of its loops longer, the least lengthened first."""
    found = [
        (length / bound, loop, length)
        for loop, bound in layer.bounds.items()
        for length in range(bound + 1, bound + bound // MOST_LENGTHENED + 1)
        if max(prime_counts(length)) <= LARGEST_PRIME
    ]
    for _, loop, length in sorted(found, key=lambda one: (one[0], LOOPS.index(one[1]))):
        yield layer.padded_to({**layer.bounds, loop: length})
