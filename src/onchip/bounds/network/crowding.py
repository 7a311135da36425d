"""What schedules pay where maps have no room on the chip beside each other (docs/schedule.md, section 8).

Where no addressed memory holds weights, each tile of an operator reads all of its weight from DRAM. So of the maps that
an operator reads and writes as many bits stay as its tiles have room for, and either there are more tiles, or a map
passes DRAM: it is written there and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.bounds.layer.needed import NeededPixels, is_read, seen_pixels
from onchip.bounds.network.room_prices import CrowdedOperator, RoomPrices
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.rates import MemoryRates
from onchip.ops.derive.fusable import pixels_of


@dataclass(frozen=True, slots=True)
class PaidForRoom:
    """What is paid beyond what every schedule moves: picojoules, cycles of DRAM, and bits read and written there."""

    energy_pj: Fraction = Fraction(0)
    dram_cycles: Fraction = Fraction(0)
    traffic_bits: int = 0


NOTHING_PAID: Final = PaidForRoom()


@dataclass(slots=True)
class CrowdedNetwork:
    """The maps of a network that compete for room; `nests` are those of its operators, by name."""

    graph: Graph
    nests: Mapping[str, tuple[Layer, ...]]
    accelerator: Accelerator
    needed: Mapping[str, NeededPixels]
    operands: Mapping[str, frozenset[str]] = field(default_factory=dict)
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
                maps = {
                    name: bits for name in (*operator.inputs, *operator.outputs) if (bits := self._bits(operator, name))
                }
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

    def _bits(self, operator: Operator, name: str) -> int:
        """What the operator reads or writes of a map between operators, as far as it is needed."""
        tensor = self.graph.tensor[name]
        if tensor.role is not Role.ACTIVATION or tensor.shape is None or tensor.bits is None:
            return 0
        if name not in operator.outputs and not is_read(operator, name, self.nests, self.operands):
            return 0
        seen = self.needed[name]
        if name not in operator.outputs:
            written = max((self.needed[one] for one in operator.outputs), key=lambda one: one.are_all)
            seen = seen_pixels(self.graph, operator, self.nests.get(operator.name, ()), tensor, written)
        return int(elements_of(tensor) * tensor.bits * seen.share(tensor))

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
