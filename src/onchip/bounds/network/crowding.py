"""What schedules pay where maps have no room on the chip beside each other (docs/schedule.md, section 8).

Where no addressed memory holds weights, each tile of an operator reads all of its weight from DRAM. So of the maps that
an operator reads and writes as many bits stay as its tiles have room for, and either there are more tiles, or a map
passes DRAM: it is written there and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.bounds.layer.needed import NeededPixels, is_read, seen_pixels
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.rates import MemoryRates
from onchip.ops.derive.fusable import pixels_of
from onchip.ops.views.joined_maps import JoinedMaps, parts_of

MOST_SWEEPS: Final = 6
"""Through all operators, while that changes a price."""


@dataclass(frozen=True, slots=True)
class PaidForRoom:
    """What is paid beyond what every schedule moves: picojoules, cycles of DRAM, and bits read and written there."""

    energy_pj: Fraction = Fraction(0)
    dram_cycles: Fraction = Fraction(0)
    traffic_bits: int = 0


NOTHING_PAID: Final = PaidForRoom()


@dataclass(slots=True)
class CrowdedNetwork:
    """The maps of a network that compete for room; `nests` are those of its operators, by name.

    What is read of concatenations that are `joined` are their parts.
    """

    graph: Graph
    nests: Mapping[str, tuple[Layer, ...]]
    accelerator: Accelerator
    needed: Mapping[str, NeededPixels]
    operands: Mapping[str, frozenset[str]] = field(default_factory=dict)
    joined: JoinedMaps = field(default_factory=dict)
    _rates: MemoryRates = field(init=False)

    def __post_init__(self) -> None:
        self._rates = MemoryRates(self.accelerator)

    def crowding(self, weight_bits: Mapping[str, int], energies: MapEnergies) -> PaidForRoom:
        """What is paid at least; `weight_bits` of each parameter are those that every tile of its operator reads."""
        held = {operand for level in self._rates.addressed for operand in level.memory.holds}
        crowded = [] if Operand.WEIGHT in held else self._crowded(weight_bits)
        if not crowded:
            return NOTHING_PAID
        maps = {name for _, bits in crowded for name in bits}
        read, written = (self._cycles_of_a_bit(way) for way in (Direction.READ, Direction.WRITE))
        passing_pj = {name: energies.passing_pj(name) for name in maps}

        def paid(tile: Fraction, prices: Mapping[str, Fraction]) -> Fraction:
            operators = [CrowdedOperator(tile * weight, bits) for weight, bits in crowded]
            return RoomPrices(operators, prices, self._room_bits()).least_price()

        return PaidForRoom(
            paid(energies.again_pj, passing_pj),
            paid(read, dict.fromkeys(maps, read + written)),
            ceil(paid(Fraction(1), dict.fromkeys(maps, Fraction(2)))),
        )

    def _crowded(self, weight_bits: Mapping[str, int]) -> list[tuple[int, dict[str, int]]]:
        """Of each operator every tile of which reads all of a parameter: its bits, and those of its maps by name."""
        found = []
        for operator in self.graph.operators:
            if self._reads_its_weight_in_each_tile(operator):
                names = (*operator.inputs, *operator.outputs)
                maps = {part: bits for name in names for part, bits in self._bits(operator, name) if bits}
                (nest,) = self.nests[operator.name]
                own = nest.elements(WEIGHT) * nest.weight_bits
                found.append((min(weight_bits[operator.parameters[0]], own), maps))
        return [(weight, maps) for weight, maps in found if sum(maps.values()) > self._room_bits()]

    def _reads_its_weight_in_each_tile(self, operator: Operator) -> bool:
        """Of one nest whose P and Q are the rows and columns of its output, all tiles have all other loops."""
        nests = self.nests.get(operator.name, ())
        if len(nests) != 1 or len(operator.parameters) != 1 or len(operator.outputs) != 1:
            return False
        shape = self.graph.tensor[operator.outputs[0]].shape
        return nests[0].has_weight and shape is not None and pixels_of(shape) == (nests[0].p, nests[0].q)

    def _bits(self, operator: Operator, name: str) -> Iterator[tuple[str, int]]:
        """Yield maps between operators, with the bits that the operator reads or writes of each, as far as needed."""
        tensor = self.graph.tensor[name]
        if tensor.role is not Role.ACTIVATION or tensor.shape is None or tensor.bits is None:
            return
        if name not in operator.outputs and not is_read(operator, name, self.nests, self.operands):
            return
        seen = self.needed[name]
        if name not in operator.outputs:
            written = max((self.needed[one] for one in operator.outputs), key=lambda one: one.are_all)
            seen = seen_pixels(self.graph, operator, self.nests.get(operator.name, ()), tensor, written)
        for part in parts_of(self.joined, (name,)):
            yield part, int(elements_of(self.graph.tensor[part]) * tensor.bits * seen.share(tensor))

    def _room_bits(self) -> int:
        """Of all addressed memories that hold maps."""
        kinds = {Operand.INPUT, Operand.OUTPUT}
        return 8 * sum(one.memory.capacity_bytes for one in self._rates.addressed if kinds & set(one.memory.holds))

    def _cycles_of_a_bit(self, way: Direction) -> Fraction:
        rate = self._rates.bits_per_cycle(DRAM, way)
        return Fraction(0) if rate is None else Fraction(1, rate)


@dataclass(frozen=True, slots=True)
class MapEnergies:
    """In pJ of a bit: of a weight that is read once more, and of each map, by name, that passes DRAM."""

    again_pj: Fraction
    passing_pj: Callable[[str], Fraction]


def elements_of(tensor: Tensor) -> int:
    """Return the number of elements of a tensor with a shape."""
    found = 1
    for size in tensor.shape or ():
        found *= size
    return found


@dataclass(frozen=True, slots=True)
class CrowdedOperator:
    """The price of each tile after the first, and the bits of each map that all tiles together read or write.

    Each operator runs in at least one tile. The parts of maps on the chip that a tile reads and writes fit together.
    Every tile after the first has a price, and so has every bit of a map that does not stay. This is a linear program
    (real numbers of tiles); any prices of room give a bound of it (docs/schedule.md, section 8).
    """

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
