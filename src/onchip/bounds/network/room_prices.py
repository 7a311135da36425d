"""The least that is paid for want of room: of all ways to leave maps on the chip, in more tiles, or to move them.

Each operator runs in tiles, at least one. In a tile what it reads and writes of the maps that stay on the chip has room
together. Every tile after the first has a price, and every bit of a map that does not stay. This is a linear
program (real numbers of tiles); any prices of room make a bound of it (docs/schedule.md, section 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Final

MOST_SWEEPS: Final = 6
"""Through all operators, while that changes a price."""


@dataclass(frozen=True, slots=True)
class CrowdedOperator:
    """The price of each tile after the first, and the bits of each map that all tiles together read or write."""

    tile_price: Fraction
    map_bits: Mapping[str, int]


@dataclass(slots=True)
class RoomPrices:
    """`room_bits` for the maps of a tile; `map_prices` of a bit of each map that does not stay."""

    operators: Sequence[CrowdedOperator]
    map_prices: Mapping[str, Fraction]
    room_bits: int
    _seen: Mapping[str, Sequence[tuple[int, int]]] = field(init=False)
    """Of each map the operators that see it, by number, and how many bits each sees."""

    def __post_init__(self) -> None:
        self._seen = {
            name: [(at, one.map_bits[name]) for at, one in enumerate(self.operators) if name in one.map_bits]
            for name in self.map_prices
        }

    def least_price(self) -> Fraction:
        """What every schedule pays at least: the best of what some prices of room prove, reckoned exactly."""
        starts = [0.0] * len(self.operators), [self._fair(at) for at in range(len(self.operators))]
        return max((self.proven(map(Fraction, self._risen(list(one)))) for one in starts), default=Fraction(0))

    def proven(self, bit_prices: Iterable[Fraction]) -> Fraction:
        """What prices of a bit of room in a tile of each operator prove.

        A tile of `room_bits` at such a price costs no more than a tile does, or the price is lowered until it does not.
        So each operator pays for the bits that stay in it, less the tile that it has anyway; and each map chooses how
        much of it stays, for what is cheapest, at one of the lengths that operators see of it.
        """
        prices = [
            min(max(price, Fraction(0)), self._highest(at))
            for at, price in zip(range(len(self.operators)), bit_prices, strict=True)
        ]
        paid = -sum((price * self.room_bits for price in prices), Fraction(0))
        for name, price in self.map_prices.items():
            seen = [(bits, prices[at]) for at, bits in self._seen[name]]
            moved = {0, *(bits for bits, _ in seen)}
            paid += min(price * bits + sum(each * max(size - bits, 0) for size, each in seen) for bits in moved)
        return max(paid, Fraction(0))

    def _highest(self, at: int) -> Fraction:
        """At which a tile's room costs what a tile does; without room nothing stays, whatever it costs."""
        if self.room_bits == 0:
            return max(self.map_prices.values(), default=Fraction(0))
        return self.operators[at].tile_price / self.room_bits

    def _fair(self, at: int) -> float:
        """So that no map would rather move: each operator that sees it asks for the same."""
        asked = [float(self.map_prices[name]) / len(self._seen[name]) for name in self.operators[at].map_bits]
        return min([float(self._highest(at)), *asked])

    def _risen(self, prices: list[float]) -> list[float]:
        """One operator's price after the other to where the bound is greatest, until none changes any more."""
        for _ in range(MOST_SWEEPS):
            before = list(prices)
            for at in range(len(prices)):
                prices[at] = max(self._corners(at, prices), key=lambda one: self._around(at, one, prices))
            if prices == before:
                break
        return prices

    def _corners(self, at: int, prices: Sequence[float]) -> list[float]:
        """Prices of one operator at which a map would rather be moved as far as another operator sees it."""
        found = {0.0, float(self._highest(at))}
        for name in self.operators[at].map_bits:
            for (one, rise), (other, other_rise) in combinations(self._lines(at, name, prices), 2):
                if rise != other_rise:
                    found.add((other - one) / (rise - other_rise))
        return sorted(one for one in found if 0.0 <= one <= float(self._highest(at)))

    def _around(self, at: int, price: float, prices: Sequence[float]) -> float:
        """The bound, but for what does not depend on the price of this operator."""
        maps = (
            min(one + rise * price for one, rise in self._lines(at, name, prices))
            for name in self.operators[at].map_bits
        )
        return sum(maps) - price * self.room_bits

    def _lines(self, at: int, name: str, prices: Sequence[float]) -> list[tuple[float, int]]:
        """For each part of a map that may be moved, what is paid at price 0 of this operator, and how that rises."""
        own = self.operators[at].map_bits[name]
        others = [(bits, prices[number]) for number, bits in self._seen[name] if number != at]
        price = float(self.map_prices[name])
        return [
            (price * bits + sum(each * max(size - bits, 0) for size, each in others), max(own - bits, 0))
            for bits in sorted({0, own, *(size for size, _ in others)})
        ]
