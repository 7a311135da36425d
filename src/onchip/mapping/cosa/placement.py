"""A schedule in CoSA's terms: the number of copies of each loop's primes at each place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop, even
from onchip.arch.memory import Operand
from onchip.mapping.cosa.machine import CosaMachine, Place
from onchip.model.unrolling.unrolling import prime_counts

Factor = tuple[str, int]
"""A loop and one of its primes; 1 for a loop of R, S, P, Q with bound 1, since its place counts too."""
GIVEN_ORDER: Final = ("R", "S", "P", "Q", "C", "K", "N", "G")
"""Order of temporal loops within a level, innermost first, where CoSA leaves it open."""


@dataclass(frozen=True, slots=True)
class FactorPlacement:
    """The place of each factor; `orders` holds the levels' temporal loop orders that differ from GIVEN_ORDER.

    Orders are innermost first. CoSA decides only the order at the global buffer.
    """

    counts: Mapping[tuple[Factor, Place], int]
    orders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def order(self, level: int) -> tuple[str, ...]:
        """Return all loops in their order at a level, innermost first."""
        return self.orders.get(level, GIVEN_ORDER)

    def sizes(self, places: Iterable[Place]) -> dict[str, int]:
        """Return the product of each loop's factors at these places, with loops in GIVEN_ORDER."""
        wanted, sizes = set(places), dict.fromkeys(GIVEN_ORDER, 1)
        for ((loop, prime), place), count in self.counts.items():
            if place in wanted:
                sizes[loop] *= prime**count
        return sizes

    def copies(self, loop: str, places: Iterable[Place]) -> int:
        """Return the number of a loop's factors at these places, including factors of 1."""
        wanted = set(places)
        return sum(count for ((name, _), place), count in self.counts.items() if name == loop and place in wanted)

    def mapping(self, machine: CosaMachine) -> LayerMapping:
        """Return the even mapping; at each level spatial loops are inside."""
        levels = [(name, self._loops(machine, level)) for level, name in enumerate(machine.names)]
        holders = {
            str(operand): [name for level, name in enumerate(machine.names) if operand in machine.entries[level]]
            for operand in Operand
        }
        return even(levels, holders, self._loops(machine, machine.dram))

    def _loops(self, machine: CosaMachine, level: int) -> list[Loop]:
        side_by_side = [
            Loop(loop, size, place.along)
            for place in machine.units
            if place.level == level
            for loop, size in self.sizes((place,)).items()
            if size > 1
        ]
        sizes = self.sizes((Place(level),))
        return [*side_by_side, *(Loop(loop, sizes[loop]) for loop in self.order(level) if sizes[loop] > 1)]


def factors_of(bounds: Mapping[str, int]) -> dict[Factor, int]:
    """Return the number of copies of each factor that must be placed."""
    factors: dict[Factor, int] = {}
    for loop in GIVEN_ORDER:
        primes = prime_counts(bounds[loop])
        if not primes and loop in ("R", "S", "P", "Q"):
            primes = {1: 1}
        factors |= {(loop, prime): count for prime, count in primes.items()}
    return factors
