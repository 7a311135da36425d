"""Lower bounds on the cost of limited on-chip capacity for feature maps (docs/schedule.md, section 8).

If no addressed memory holds weights, each tile of an operator reads its whole weight from DRAM. The bits of an
operator's maps that stay on the chip have to fit in its tiles. So either there are more tiles, or a map passes DRAM: it
is written there and read again. An operator that no tiling cuts has one tile on any machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Memory, Operand
from onchip.bounds.layer.needed import (
    JOINS,
    NeededPixels,
    is_read,
    is_view,
    pixels_cut,
    reach_of,
    runs_alone,
    runs_whole,
    seen_pixels,
)
from onchip.bounds.network.cut_groups import CutNetwork, CutOperator
from onchip.bounds.network.cut_paths import CutPaths, RoomPricing
from onchip.bounds.network.product_chains import ChainsOfProducts
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import MemoryRates
from onchip.ops.channel_slices import whole_inputs
from onchip.ops.fusable import MATRIX_RANKS, pixels_of
from onchip.ops.layers_of import moves_in_rows, multiplies_rows
from onchip.ops.nests import LOOKUPS
from onchip.ops.views import JoinedMaps, moves_channels, parts_of

MOST_SWEEPS: Final = 6
"""Limit on the sweeps over all operators that improve prices."""
_MARGIN: Final = 1e-9
"""Upper bound on the relative error of sums of floating-point numbers."""


@dataclass(slots=True, eq=False)
class PaidForRoom:
    """Lower bounds on the cost beyond the compulsory moves, each computed when it is first asked for.

    Energy is in pJ, traffic in bits read from and written to DRAM.
    """

    _least: Callable[[Measure], Fraction]
    _known: dict[Measure, Fraction] = field(default_factory=dict)

    @property
    def energy_pj(self) -> Fraction:
        """Return the energy in pJ."""
        return self._of(Measure.ENERGY)

    @property
    def dram_cycles(self) -> Fraction:
        """Return the cycles of DRAM."""
        return self._of(Measure.CYCLES)

    @property
    def traffic_bits(self) -> int:
        """Return the bits that DRAM reads and writes."""
        return ceil(self._of(Measure.TRAFFIC))

    def _of(self, measure: Measure) -> Fraction:
        if measure not in self._known:
            self._known[measure] = self._least(measure)
        return self._known[measure]


class Measure(Enum):
    """Costs for which bits have a price."""

    ENERGY = "energy"
    CYCLES = "cycles"
    TRAFFIC = "traffic"


NOTHING_PAID: Final = PaidForRoom(lambda _: Fraction(0))


@dataclass(slots=True)
class CrowdedNetwork:
    """The feature maps of a network that compete for on-chip memory. `nests` maps operator names to loop nests.

    A read of a concatenation in `joined` is a read of its parts.
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
        """Return a lower bound on the cost. `weight_bits` maps parameters to the bits that their operators read."""
        chains = ChainsOfProducts(self.graph, self.nests, self.accelerator, self.needed) if energies.again_pj else None
        all_stay = self._all_stay()
        paths = None if all_stay else CutPaths(self._cuts(weight_bits), self._room_bits(), self._largest_bits())
        crowded = () if all_stay else (*self._whole(), *self._in_tiles(weight_bits))

        def paid(measure: Measure) -> Fraction:
            pricing = self._pricing(measure, energies)
            operators = [one.at_price(pricing.weight) for one in crowded]
            prices = {name: pricing.maps[name] for one in crowded for name in one.map_bits}
            alone = RoomPrices(operators, prices, self._room_bits()).least_price()
            floors = [one.least_price(pricing) for one in (paths, chains) if one is not None]
            return max(alone, Fraction(max(floors, default=0.0) * (1 - _MARGIN)))

        return PaidForRoom(paid)

    def _pricing(self, measure: Measure, energies: MapEnergies) -> RoomPricing:
        maps = {name for one in self._operators for name in self._map_bits(one)}
        inputs = {tensor.name for tensor in self.graph.with_role(Role.INPUT)}
        if measure is Measure.ENERGY:
            passing_pj = {name: energies.passing_pj(name) for name in maps}
            return RoomPricing(energies.again_pj, passing_pj, {name: energies.read_pj(name) for name in maps | inputs})
        read, written = Fraction(1), Fraction(1)
        if measure is Measure.CYCLES:
            read, written = (self._cycles_of_a_bit(way) for way in (Direction.READ, Direction.WRITE))
        return RoomPricing(read, dict.fromkeys(maps, read + written), dict.fromkeys(maps | inputs, read))

    def _all_stay(self) -> bool:
        """Return True if all maps fit when every operator runs whole, in the network's order."""
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
        """Return the network as `CutPaths` sees it."""
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
                    *pixels_cut(self.graph, operator),
                    weight,
                    is_whole=runs_whole(self.graph, operator, nests),
                    is_lone=runs_alone(self.graph, operator, nests),
                    ends_tiles=self._ends_tiles(operator),
                    leaves=any(one.role is Role.OUTPUT for one in outputs),
                    computes=self._computes(operator),
                    whole_inputs=self._whole_inputs(operator),
                    outside_bits=self._outside_bits(operator),
                    in_place=frozenset(pair.output for pair in operator.in_place),
                )
            )
        return CutNetwork(operators, kept, self._pixel_bits())

    def _ends_tiles(self, operator: Operator) -> bool:
        """Return True if a group in tiles may end with the operator: it is no view, or computes rows or pixels."""
        is_computed = moves_channels(self.graph, operator) or moves_in_rows(self.graph, operator)
        return is_computed or not is_view(self.graph, operator)

    def _pixel_bits(self) -> dict[str, int]:
        """Map each image between operators to the bits of each of its pixels, without maps that may be cut by heads."""
        by_heads = {
            name
            for operator in self.graph.operators
            if pixels_cut(self.graph, operator)[1] is not None
            for name in (*operator.inputs, *operator.outputs)
        }
        found = {}
        for tensor in self.graph.with_role(Role.ACTIVATION):
            rows, columns = pixels_of(tensor.shape or ())
            is_image = len(tensor.shape or ()) > max(MATRIX_RANKS) and tensor.name not in by_heads
            if is_image and tensor.bits is not None and rows * columns:
                found[tensor.name] = elements_of(tensor) // (rows * columns) * tensor.bits
        return found

    def _whole_inputs(self, operator: Operator) -> frozenset[str] | None:
        """Return the maps of the input of which each slice of output channels reads all channels.

        None if there are no slices. Of several such inputs the first one counts.
        """
        found = whole_inputs(self.graph, operator)
        return None if found is None else frozenset(parts_of(self.joined, tuple(sorted(found)[:1])))

    def _outside_bits(self, operator: Operator) -> dict[str, int]:
        """Map the network's inputs that each slice of output channels reads whole to the bits that are needed."""
        names = [name for name in self._whole_inputs(operator) or () if self.graph.tensor[name].role is Role.INPUT]
        tensors = {name: self.graph.tensor[name] for name in names}
        return {
            name: int(elements_of(one) * one.bits * self._share(operator, name))
            for name, one in tensors.items()
            if one.shape is not None and one.bits is not None
        }

    def _maps_of_a_compute(self, operator: Operator) -> dict[str, int]:
        """Map each tensor to the bits for which the Computes of an operator need room, in slices of channels or not."""
        maps, whole = self._map_bits(operator), self._whole_inputs(operator)
        in_place = {pair.output for pair in operator.in_place}  # lies in the bytes of an input
        return {name: bits for name, bits in maps.items() if name not in in_place and (whole is None or name in whole)}

    def _computes(self, operator: Operator) -> int:
        """Return the maximum number of Computes of an operator in one tile: a view has one per layer that sees it."""
        if not is_view(self.graph, operator) and operator.kind not in JOINS:
            return 1
        readers = [(one, one.inputs.count(name)) for name in operator.outputs for one in self.graph.readers[name]]
        return max(sum(times * self._computes(one) for one, times in readers), 1)

    def _whole(self) -> Iterator[CrowdedOperator]:
        """Yield the operators without tiles whose maps do not fit on the chip together."""
        for operator in self._operators:
            if runs_whole(self.graph, operator, self.nests.get(operator.name, ())):
                maps = self._maps_of_a_compute(operator)
                moved = frozenset(name for name, bits in maps.items() if bits > self._largest_bits())
                if moved or sum(maps.values()) > self._room_bits():
                    yield CrowdedOperator(None, maps, moved)

    def _in_tiles(self, weight_bits: Mapping[str, int]) -> Iterator[CrowdedOperator]:
        """Yield the operators whose tiles each read a whole parameter, with the bits of the parameter as tile price."""
        if any(Operand.WEIGHT in level.memory.holds for level in self._rates.addressed):
            return
        for operator in self._operators:
            nests = self.nests.get(operator.name, ())
            if not runs_whole(self.graph, operator, nests) and self._reads_its_weight_in_each_tile(operator):
                own = nests[0].elements(WEIGHT) * nests[0].weight_bits
                maps = self._maps_of_a_compute(operator)
                if sum(maps.values()) > self._room_bits():
                    yield CrowdedOperator(Fraction(min(weight_bits[operator.parameters[0]], own)), maps)

    def _reads_its_weight_in_each_tile(self, operator: Operator) -> bool:
        """Return True if each tile of the operator reads its whole weight.

        This holds for a single nest whose P and Q are the rows and columns of its output, and for rows times a matrix,
        because tiles cut no other loop.
        """
        nests = self.nests.get(operator.name, ())
        if len(nests) != 1 or len(operator.parameters) != 1 or len(operator.outputs) != 1:
            return False
        shape = self.graph.tensor[operator.outputs[0]].shape
        if not nests[0].has_weight or shape is None:
            return False
        return pixels_of(shape) == (nests[0].p, nests[0].q) or multiplies_rows(self.graph, operator)

    @property
    def _operators(self) -> Iterator[Operator]:
        """The operators without joined concatenations."""
        return (one for one in self.graph.operators if one.outputs[0] not in self.joined)

    def _map_bits(self, operator: Operator) -> dict[str, int]:
        """Map each tensor between operators to the needed bits that the operator reads or writes."""
        found = {}
        for name in (*operator.inputs, *operator.outputs):
            for part in parts_of(self.joined, (name,)):
                tensor = self.graph.tensor[part]
                if tensor.role is Role.ACTIVATION and None not in (tensor.shape, tensor.bits) and self._counts(part):
                    found[part] = int(elements_of(tensor) * (tensor.bits or 0) * self._share(operator, name))
        return {name: bits for name, bits in found.items() if bits}

    def _counts(self, name: str) -> bool:
        """Return True if a map has readers, and reading it counts for all of them."""
        readers = self.graph.readers[name]
        return bool(readers) and all(
            self._counts(one.outputs[0])
            if one.outputs[0] in self.joined
            else is_read(one, name, self.nests, self.operands)
            for one in readers
        )

    def _share(self, operator: Operator, name: str) -> Fraction:
        """Return a lower bound on the fraction of a tensor that the operator reads or writes."""
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
    """Energies in pJ of a bit: of a weight's repeated read, of a map (by name) that passes DRAM, and of its read."""

    again_pj: Fraction
    passing_pj: Callable[[str], Fraction]
    read_pj: Callable[[str], Fraction]


def elements_of(tensor: Tensor) -> int:
    """Return the number of elements of a tensor with a shape."""
    found = 1
    for size in tensor.shape or ():
        found *= size
    return found


@dataclass(frozen=True, slots=True)
class CrowdedOperator:
    """The price of each tile after the first, and the bits of each map that all tiles together read or write.

    Each operator runs in at least one tile. The on-chip parts of maps that a tile reads and writes fit together. Every
    tile after the first has a price, and so has every bit of a map that does not stay. This is a linear program (with a
    real number of tiles). Any prices of room are a dual solution and give a bound (docs/schedule.md, section 8). An
    operator without a tile price has one tile. Maps in `moved` do not fit even alone.
    """

    tile_price: Fraction | None
    map_bits: Mapping[str, int]
    moved: frozenset[str] = frozenset()

    def at_price(self, factor: Fraction) -> CrowdedOperator:
        """Return the operator with its tile price multiplied by a factor."""
        return replace(self, tile_price=None if self.tile_price is None else self.tile_price * factor)


@dataclass(slots=True)
class RoomPrices:
    """The dual of the capacity problem: prices of room in the tiles of each operator.

    `room_bits` is the capacity for the maps of a tile. `map_prices` is the price of a bit of each map that does not
    stay.
    """

    operators: Sequence[CrowdedOperator]
    map_prices: Mapping[str, Fraction]
    room_bits: int
    _seen: Mapping[str, Sequence[tuple[int, int]]] = field(init=False)
    """Map each map to pairs of the index of an operator that sees it and the bits that this operator sees."""
    _least_moved: Mapping[str, int] = field(init=False)
    """Map each map to the bits that have to move."""

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
        """Return the best lower bound over several room prices, evaluated in exact arithmetic."""
        starts = [0.0] * len(self.operators), [self._fair(at) for at in range(len(self.operators))]
        return max((self.proven(map(Fraction, self._risen(list(one)))) for one in starts), default=Fraction(0))

    def proven(self, bit_prices: Iterable[Fraction]) -> Fraction:
        """Return the lower bound that prices of a bit of room in a tile of each operator prove.

        A price is lowered if `room_bits` at this price exceed the price of a tile. Each operator pays for the bits that
        stay in it, less the room of its first tile. Each map takes the cheapest choice of staying bits, which is at one
        of the lengths that operators see.
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
        """Return the candidate numbers of a map's moved bits: the minimum, or the bits that some operator sees."""
        least = self._least_moved[name]
        return sorted({least, *(bits for _, bits in self._seen[name] if bits > least)})

    def _highest(self, at: int) -> Fraction:
        """Return the room price at which a tile's room has the price of a tile.

        Without room or without a tile price, return the highest price of a map's bit.
        """
        tile_price = self.operators[at].tile_price
        if self.room_bits == 0 or tile_price is None:
            return max(self.map_prices.values(), default=Fraction(0))
        return tile_price / self.room_bits

    def _fair(self, at: int) -> float:
        """Return a price at which no map prefers to move: the operators that see a map share its price equally."""
        asked = [float(self.map_prices[name]) / len(self._seen[name]) for name in self.operators[at].map_bits]
        return min([float(self._highest(at)), *asked])

    def _risen(self, prices: list[float]) -> list[float]:
        """Return the prices after coordinate ascent on the bound, operator by operator, until no price changes."""
        for _ in range(MOST_SWEEPS):
            before = list(prices)
            for at in range(len(prices)):
                prices[at] = max(self._corners(at, prices), key=lambda one: self._around(at, one, prices))
            if prices == before:
                break
        return prices

    def _corners(self, at: int, prices: Sequence[float]) -> list[float]:
        """Return the breakpoints of the bound in the price of one operator, where a map's cheapest choice changes."""
        found = {0.0, float(self._highest(at))}
        for name in self.operators[at].map_bits:
            for (one, rise), (other, other_rise) in combinations(self._lines(at, name, prices), 2):
                if rise != other_rise:
                    found.add((other - one) / (rise - other_rise))
        return sorted(one for one in found if 0.0 <= one <= float(self._highest(at)))

    def _around(self, at: int, price: float, prices: Sequence[float]) -> float:
        """Return the terms of the bound that depend on the price of this operator."""
        maps = (
            min(one + rise * price for one, rise in self._lines(at, name, prices))
            for name in self.operators[at].map_bits
        )
        return sum(maps) - price * self.room_bits

    def _lines(self, at: int, name: str, prices: Sequence[float]) -> list[tuple[float, int]]:
        """Return for each number of moved bits the cost at price 0 of this operator, and its slope in this price."""
        own = self.operators[at].map_bits[name]
        others = [(bits, prices[number]) for number, bits in self._seen[name] if number != at]
        price = float(self.map_prices[name])
        return [
            (price * bits + sum(each * max(size - bits, 0) for size, each in others), max(own - bits, 0))
            for bits in self._moved(name)
        ]
