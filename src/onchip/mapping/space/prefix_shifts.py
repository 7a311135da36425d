"""In which order DeFiNES goes through the orders of loops: of mappings that are equally good it keeps the first.

All arrangements of a multiset by prefix shifts (A. Williams, "Loopless generation of multiset permutations using a
constant number of variables by prefix shifts", SODA 2009), the one that falls nowhere first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from onchip.ir.layer import LOOPS, OTHER_NAMES
from onchip.model.layer.tables import Chosen

Factor: TypeAlias = tuple[str, int]
_THEIR_NAMES: Final = {ours: theirs for theirs, ours in OTHER_NAMES.items()}
NAMES: Final = tuple(_THEIR_NAMES.get(loop, loop) for loop in LOOPS)


def arrangements(items: Iterable[Factor]) -> Iterator[tuple[Factor, ...]]:
    """Each arrangement once; the next one has one item moved to the front.

    That is the first that is greater than the one before it, or the one behind, if that is no greater than the one
    before both; where none is greater, the last.
    """
    row = sorted(items, reverse=True)
    last = len(row) - 1
    yield tuple(row)
    while row:
        rising = next((at for at in range(1, last + 1) if row[at] > row[at - 1]), last)
        if rising == last and row[last] >= row[0]:
            return
        passes = rising < last and row[rising + 1] <= row[rising - 1]
        row.insert(0, row.pop(rising + 1 if passes else rising))
        yield tuple(row)


@lru_cache(maxsize=64)
def ranks(items: tuple[Factor, ...]) -> Mapping[tuple[Factor, ...], int]:
    """The number of each arrangement, from 0."""
    return {one: number for number, one in enumerate(arrangements(items))}


class FirstOfDefines:
    """A row's number among all orders of its loops, innermost first, under DeFiNES's names."""

    def __call__(self, chosen: Chosen, row: int) -> float:
        """Rows of one layer have the same loops in another order."""
        loops = chosen.temporal_loop[row, : chosen.temporal_count[row]].tolist()
        sizes = chosen.temporal_size[row, : chosen.temporal_count[row]].tolist()
        order = tuple(zip((NAMES[loop] for loop in loops), sizes, strict=True))
        return ranks(tuple(sorted(order)))[order]
