"""The order in which DeFiNES enumerates loop orders: it keeps the first of equally good mappings.

It enumerates the arrangements of a multiset by prefix shifts (A. Williams, "Loopless generation of multiset
permutations using a constant number of variables by prefix shifts", SODA 2009), from the non-increasing one.
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
    """Yield each arrangement once; each step moves one item to the front.

    The moved item is the first that exceeds its predecessor, or the item after it, if that does not exceed the
    predecessor. If no item exceeds its predecessor, the last item moves.
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
    """Return the number of each arrangement in this order, from 0."""
    return {one: number for number, one in enumerate(arrangements(items))}


class FirstOfDefines:
    """The rank of a row: its number among all orders of its loops, innermost first, with DeFiNES's loop names."""

    def __call__(self, chosen: Chosen, row: int) -> float:
        """Return a row's rank; rows of one layer differ only in loop order."""
        loops = chosen.temporal_loop[row, : chosen.temporal_count[row]].tolist()
        sizes = chosen.temporal_size[row, : chosen.temporal_count[row]].tolist()
        order = tuple(zip((NAMES[loop] for loop in loops), sizes, strict=True))
        return ranks(tuple(sorted(order)))[order]
