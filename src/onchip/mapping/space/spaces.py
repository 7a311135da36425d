"""The mapping spaces for which methods prove bounds, each with a short name and a definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MapSpace:
    """A set of mappings for which a bound holds."""

    name: str
    definition: str


EVEN_MAPPINGS: Final = MapSpace(
    "even mappings",
    "all splits of the loop bounds into whole factors over time and the dimensions of the array; every memory keeps "
    "each operand that it holds, if it has room for an element; the tiles of a memory's operands span the same loops, "
    "and of each operand also those right above along which it does not change; loops beside each other split what the "
    "input's tile above them spans into neighbouring tiles; between two memories any order of loops (for latency and "
    "energy-delay product: of classes of loops next to each other, a class being the loops along which the same "
    "operand does not change)",
)
WITHOUT_BYPASS: Final = MapSpace(
    "mappings without bypass",
    "all mappings in which every memory keeps each operand that it holds, if it has room for an element: each operand "
    "cut at its own places, loops in any order and in any parts, over time and the dimensions of the array, the last "
    "part of a loop shorter where they do not divide it",
)
ONE_UNROLLING: Final = MapSpace(
    "uneven mappings with one unrolling",
    "all orders of the prime factors of the loops in time, beside one way to unroll the array; every memory keeps each "
    "operand that it holds, if it has room for an element, each operand with its own cut anywhere; sums take the room "
    "of partial ones wherever they arrive incomplete, tiles of the input room from their first row to their last",
)
COSA_PROGRAM: Final = MapSpace("CoSA's program", "the schedules of CoSA's program, by its own objective and capacities")


SPACES: Final[Mapping[str, MapSpace]] = {
    "exact": WITHOUT_BYPASS,
    "exact-even": EVEN_MAPPINGS,
    "uneven": ONE_UNROLLING,
    "cosa": COSA_PROGRAM,
}
"""Space of each method's status and lower bound; the other methods prove nothing."""
