"""Layers with a loop somewhat longer than it has to be, whose even mappings may be better once they are cut off.

Of 512 iterations no even mapping has a factor of 3. Those of 540 have, and of them only 512 are executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from onchip.ir.layer import LOOPS, Layer

SMALL_PRIMES: Final = (2, 3, 5)
"""All that divide a longer loop, so that it may be cut in many places."""
MOST_LENGTHENED: Final = 6
"""A loop is at most one part in so many longer."""


def longer_layers(layer: Layer) -> Iterator[Layer]:
    """The layer with one of its loops longer, the least lengthened first."""
    lengthened = [
        (length / bound, loop, length)
        for loop, bound in layer.bounds.items()
        for length in _products_of_small_primes(bound + bound // MOST_LENGTHENED)
        if length > bound
    ]
    for _, loop, length in sorted(lengthened, key=lambda one: (one[0], LOOPS.index(one[1]))):
        yield layer.padded_to({**layer.bounds, loop: length})


def _products_of_small_primes(most: int) -> list[int]:
    found = [1]
    for prime in SMALL_PRIMES:
        powers = [prime**power for power in range(most.bit_length())]
        found = [one * power for one in found for power in powers if one * power <= most]
    return found
