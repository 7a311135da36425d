"""What schedules pay where maps have no room on the chip beside each other (docs/schedule.md, section 8).

Where no addressed memory holds weights, each tile of an operator reads all of its weight from DRAM. So of the maps that
an operator reads and writes as many bits stay as its tiles have room for, and either there are more tiles, or a map
passes DRAM: it is written there and read again. An operator that no tiling cuts has one tile, in any machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Memory, Operand
from onchip.bounds.layer.needed import (
    JOINS,
    VIEWS,
    NeededPixels,
    is_read,
    reach_of,
    runs_alone,
    runs_whole,
    seen_pixels,
)
from onchip.bounds.network.cut_groups import CutNetwork, CutOperator
from onchip.bounds.network.cut_paths import CutPaths, RoomPricing
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.rates import MemoryRates
from onchip.ops.derive.banded_operands import LOOKUPS
from onchip.ops.derive.fusable import pixels_of
from onchip.ops.views.joined_maps import JoinedMaps, parts_of

MOST_SWEEPS: Final = 6
"""Through all operators, while that changes a price."""
_MARGIN: Final = 1e-9
"""More than sums of floating-point numbers are ever wrong by, of their value."""


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
        """Return the least that is paid; `weight_bits` are those of each parameter that its operator reads."""
        maps = {name for one in self._operators for name in self._map_bits(one)}
        if self._all_stay():
            return NOTHING_PAID
        passing_pj = {name: energies.passing_pj(name) for name in maps}
        read, written = (self._cycles_of_a_bit(way) for way in (Direction.READ, Direction.WRITE))
        pricings = (
            RoomPricing(energies.again_pj, passing_pj),
            RoomPricing(read, dict.fromkeys(maps, read + written)),
            RoomPricing(Fraction(1), dict.fromkeys(maps, Fraction(2))),
        )
        by_cuts = CutPaths(self._cuts(weight_bits), self._room_bits(), self._largest_bits()).least_prices(pricings)
        crowded = [*self._whole(), *self._in_tiles(weight_bits)]

        def paid(pricing: RoomPricing, by_cuts: float) -> Fraction:
            operators = [one.at_price(pricing.weight) for one in crowded]
            prices = {name: pricing.maps[name] for one in crowded for name in one.map_bits}
            alone = RoomPrices(operators, prices, self._room_bits()).least_price()
            return max(alone, Fraction(by_cuts * (1 - _MARGIN)))

        energy, cycles, traffic = map(paid, pricings, by_cuts)
        return PaidForRoom(energy, cycles, ceil(traffic))

    def _all_stay(self) -> bool:
        """Return whether all maps have room if every operator runs whole, in the network's order."""
        waiting: dict[str, int] = {}
        reads = {one.name: set(parts_of(self.joined, one.inputs)) for one in self._operators}
        left = Counter(name for names in reads.values() for name in names)
        for operator in self._operators:
            own = self._map_bits(operator)
            waiting |= {name: max(bits, waiting.get(name, 0)) for name, bits in own.items()}
            if sum(waiting.values()) > self._room_bits() or max(own.values(), default=0) > self._largest_bits():
                return False
            left.subtract(reads[operator.name])
            waiting = {name: bits for name, bits in waiting.items() if left[name]}
        return True

    def _cuts(self, weight_bits: Mapping[str, int]) -> CutNetwork:
        """Return the operators as groups have them."""
        kept = 8 * sum(one.memory.capacity_bytes for one in self._rates.addressed if Operand.WEIGHT in one.memory.holds)
        operators = []
        for operator in self._operators:
            nests = self.nests.get(operator.name, ())
            reaches = {
                part: reach_of(self.graph, operator, nests, name)
                for name in operator.inputs
                for part in parts_of(self.joined, (name,))
            }
            weight = 0
            if self._reads_its_weight_in_each_tile(operator):
                (name,) = operator.parameters
                is_shared = kept > 0 and len(self.graph.readers[name]) > 1
                weight = 0 if is_shared else min(weight_bits[name], nests[0].elements(WEIGHT) * nests[0].weight_bits)
            outputs = [self.graph.tensor[name] for name in operator.outputs]
            operators.append(
                CutOperator(
                    tuple(parts_of(self.joined, operator.inputs)),
                    operator.outputs,
                    self._map_bits(operator),
                    {name: each for name, each in reaches.items() if each is not None},
                    pixels_of(outputs[0].shape or ()),
                    weight,
                    is_whole=runs_whole(self.graph, operator, nests),
                    is_lone=runs_alone(self.graph, operator, nests),
                    ends_tiles=operator.kind not in VIEWS | JOINS,
                    leaves=any(one.role is Role.OUTPUT for one in outputs),
                    computes=self._computes(operator),
                )
            )
        return CutNetwork(operators, kept)

    def _computes(self, operator: Operator) -> int:
        """Return in how many Computes an operator runs in one tile at most: a view for each layer that sees it."""
        if operator.kind not in VIEWS | JOINS:
            return 1
        readers = [(one, one.inputs.count(name)) for name in operator.outputs for one in self.graph.readers[name]]
        return max(sum(times * self._computes(one) for one, times in readers), 1)

    def _whole(self) -> Iterator[CrowdedOperator]:
        """Yield the operators without tiles whose maps have no room on the chip together."""
        for operator in self._operators:
            if runs_whole(self.graph, operator, self.nests.get(operator.name, ())):
                maps = self._map_bits(operator)
                moved = frozenset(name for name, bits in maps.items() if bits > self._largest_bits())
                if moved or sum(maps.values()) > self._room_bits():
                    yield CrowdedOperator(None, maps, moved)

    def _in_tiles(self, weight_bits: Mapping[str, int]) -> Iterator[CrowdedOperator]:
        """Yield the operators every tile of which reads all of a parameter, at the price of its bits."""
        if any(Operand.WEIGHT in level.memory.holds for level in self._rates.addressed):
            return
        for operator in self._operators:
            nests = self.nests.get(operator.name, ())
            if not runs_whole(self.graph, operator, nests) and self._reads_its_weight_in_each_tile(operator):
                own = nests[0].elements(WEIGHT) * nests[0].weight_bits
                maps = self._map_bits(operator)
                if sum(maps.values()) > self._room_bits():
                    yield CrowdedOperator(Fraction(min(weight_bits[operator.parameters[0]], own)), maps)

    def _reads_its_weight_in_each_tile(self, operator: Operator) -> bool:
        """Of one nest whose P and Q are the rows and columns of its output, all tiles have all other loops."""
        nests = self.nests.get(operator.name, ())
        if len(nests) != 1 or len(operator.parameters) != 1 or len(operator.outputs) != 1:
            return False
        shape = self.graph.tensor[operator.outputs[0]].shape
        return nests[0].has_weight and shape is not None and pixels_of(shape) == (nests[0].p, nests[0].q)

    @property
    def _operators(self) -> Iterator[Operator]:
        """Yield the operators, but for concatenations that are joined."""
        return (one for one in self.graph.operators if one.outputs[0] not in self.joined)

    def _map_bits(self, operator: Operator) -> dict[str, int]:
        """Map each tensor between operators to its bits that the operator reads or writes, as far as it is needed."""
        if operator.in_place:  # an output may lie in the bytes of an input
            return {}
        found = {}
        for name in (*operator.inputs, *operator.outputs):
            for part in parts_of(self.joined, (name,)):
                tensor = self.graph.tensor[part]
                if tensor.role is Role.ACTIVATION and None not in (tensor.shape, tensor.bits) and self._counts(part):
                    found[part] = int(elements_of(tensor) * (tensor.bits or 0) * self._share(operator, name))
        return {name: bits for name, bits in found.items() if bits}

    def _counts(self, name: str) -> bool:
        """Return whether a map has readers, and reading it counts for all of them."""
        readers = self.graph.readers[name]
        return bool(readers) and all(
            self._counts(one.outputs[0])
            if one.outputs[0] in self.joined
            else is_read(one, name, self.nests, self.operands)
            for one in readers
        )

    def _share(self, operator: Operator, name: str) -> Fraction:
        """Return the part of a tensor that the operator reads or writes at least."""
        tensor = self.graph.tensor[name]
        if tensor.shape is None:
            return Fraction(0)
        seen = self.needed[name]
        if name not in operator.outputs:
            if operator.kind in LOOKUPS:
                return Fraction(0)
            written = max((self.needed[one] for one in operator.outputs), key=lambda one: one.are_all)
            seen = seen_pixels(self.graph, operator, self.nests.get(operator.name, ()), tensor, written)
        return seen.share(tensor)

    def _largest_bits(self) -> int:
        return max((8 * one.capacity_bytes for one in self._memories()), default=0)

    def _room_bits(self) -> int:
        return 8 * sum(one.capacity_bytes for one in self._memories())

    def _memories(self) -> list[Memory]:
        """Return the addressed memories that hold maps."""
        kinds = {Operand.INPUT, Operand.OUTPUT}
        return [one.memory for one in self._rates.addressed if kinds & set(one.memory.holds)]

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
    (real numbers of tiles); any prices of room give a bound of it (docs/schedule.md, section 8). Without a price there
    is one tile; of it maps that are `moved` have no room even alone.
    """

    tile_price: Fraction | None
    map_bits: Mapping[str, int]
    moved: frozenset[str] = frozenset()

    def at_price(self, factor: Fraction) -> CrowdedOperator:
        """Return the operator with the price of a tile times a factor."""
        return replace(self, tile_price=None if self.tile_price is None else self.tile_price * factor)


@dataclass(slots=True)
class RoomPrices:
    """`room_bits` for the maps of a tile; `map_prices` of a bit of each map that does not stay."""

    operators: Sequence[CrowdedOperator]
    map_prices: Mapping[str, Fraction]
    room_bits: int
    _seen: Mapping[str, Sequence[tuple[int, int]]] = field(init=False)
    """Of each map the operators that see it, by number, and how many bits each sees."""
    _least_moved: Mapping[str, int] = field(init=False)
    """Of each map the bits that have to move."""

    def __post_init__(self) -> None:
        self._least_moved = {
            name: max((one.map_bits[name] for one in self.operators if name in one.moved), default=0)
            for name in self.map_prices
        }
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
            paid += min(
                price * bits + sum(each * max(size - bits, 0) for size, each in seen) for bits in self._moved(name)
            )
        return max(paid, Fraction(0))

    def _moved(self, name: str) -> list[int]:
        """Return the bits of a map that may move: none, or as many as an operator sees of it."""
        least = self._least_moved[name]
        return sorted({least, *(bits for _, bits in self._seen[name] if bits > least)})

    def _highest(self, at: int) -> Fraction:
        """At which a tile's room costs what a tile does; without room, or more tiles, what nobody would pay."""
        tile_price = self.operators[at].tile_price
        if self.room_bits == 0 or tile_price is None:
            return max(self.map_prices.values(), default=Fraction(0))
        return tile_price / self.room_bits

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
            for bits in self._moved(name)
        ]
