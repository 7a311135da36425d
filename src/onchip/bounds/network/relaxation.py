"""Lower bounds on the cost of every schedule of a network on an accelerator (docs/schedule.md, section 8).

The bounds hold for all stacks, tilings, homes, mappings, residencies and orders of data movement.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, prod
from typing import Final, TypeAlias

from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.schedule import MOST_TILE_OPERATORS
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import states_mac_energy
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.bounds.layer.needed import JOINS, MOVED_WHOLE, VIEWS, NeededPixels, needed_pixels, runs_whole
from onchip.bounds.layer.nest_floor import FROM_OUTSIDE, FeedingFloors, FloorOfNest, NestOrigins, origins_of
from onchip.bounds.layer.nest_work import NestWork, work_of
from onchip.bounds.layer.port_floor import MovedOperand, PortFloors, least_cycles_to_move
from onchip.bounds.network.crowding import NOTHING_PAID, CrowdedNetwork, MapEnergies, PaidForRoom
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import MemoryRates, dram_cycles
from onchip.ops.channel_slices import CHANNELS, whole_inputs
from onchip.ops.nests import BandedOperand, operands_of
from onchip.ops.views import JoinedMaps, joined_maps, may_be_views

_MARGIN: Final = 1e-9
"""Upper bound on the relative error of sums of floating-point numbers."""
_FloorKey: TypeAlias = tuple[Layer, NestWork, tuple[NestOrigins, ...]]


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Lower bounds on a schedule's figures, and their parts.

    Energies in pJ: MACs; feeding of the units by operand (including a network output's write to DRAM); the additional
    feeding because all operands of a nest share one spatial unrolling; operators without a nest; and the first DRAM
    read of inputs and parameters. `mac_pj` is None if the accelerator does not state it, and the energy bounds then
    exclude it. Cycles: of the array, and of DRAM.
    """

    mac_pj: float | None
    feeding_pj: Mapping[str, float]
    unrolling_pj: float
    without_nest_pj: float
    dram_read_pj: float
    dram_read_bits: int
    dram_written_bits: int
    computing_cycles: int
    dram_cycles: int
    dram_cycles_at_once: int
    """Cycles of DRAM if it reads and writes at the same time."""
    rounding_fj: float = 0.0
    crowding: PaidForRoom = NOTHING_PAID

    @property
    def energy_pj(self) -> float:
        """The lower bound on energy in pJ, before rounding."""
        once_pj = (self.mac_pj or 0.0) + sum(self.feeding_pj.values()) + self.unrolling_pj
        once_pj += self.without_nest_pj + self.dram_read_pj
        return once_pj + float(self.crowding.energy_pj)

    @property
    def energy_fj(self) -> int:
        """The lower bound on energy in fJ, less the possible rounding of each Compute and Copy to femtojoules."""
        energy_fj = self.energy_pj * FEMTO_PER_PICO
        return max(ceil(energy_fj * (1 - _MARGIN) - self.rounding_fj), 0)

    @property
    def latency_cycles(self) -> int:
        """The lower bound on latency in cycles: the maximum of the array's and DRAM's cycles."""
        return max(self.computing_cycles, self.dram_cycles + int(self.crowding.dram_cycles))

    @property
    def latency_cycles_at_once(self) -> int:
        """The lower bound on the cycles of operators in turn, each of which may read and write DRAM at once."""
        return max(self.computing_cycles, self.dram_cycles_at_once)

    @property
    def edp(self) -> int:
        """The lower bound on the energy-delay product, in fJ x cycles."""
        return self.energy_fj * self.latency_cycles

    @property
    def traffic_bytes(self) -> int:
        """The lower bound on DRAM traffic in bytes: compulsory reads and writes, and capacity-induced traffic."""
        once_bytes = -(-self.dram_read_bits // 8) + -(-self.dram_written_bits // 8)
        return max(once_bytes, -(-(self.dram_read_bits + self.dram_written_bits + self.crowding.traffic_bits) // 8))


def relaxation(
    graph: Graph,
    nests: Mapping[str, tuple[Layer, ...]],
    accelerator: Accelerator,
    *,
    every_memory_keeps: bool = False,
    operands: Mapping[str, frozenset[str]] | None = None,
    prices_room: bool = True,
    free: Collection[str] = (),
) -> Relaxation:
    """Return the lower bounds of a network whose operators are untiled. `nests` maps operator names to loop nests.

    `operands` maps each operator with nests to the tensors that its nests read; None means all its tensors. Other reads
    of such an operator do not count.

    The bounds hold for all mappings. With `every_memory_keeps` they hold for mappings without bypass: each memory
    nearer the MACs than an operand's home keeps tiles of it, if it holds such operands (as in the mapspaces of `exact`
    and `loma`). Without `prices_room` capacities count nothing, which takes a tenth of the time. Operators that are
    `free` cost nothing. Raises
    AcceleratorError if the accelerator has no array or no access energies.
    """
    return _Relaxing(graph, nests, accelerator, every_memory_keeps, operands or {}, prices_room, free).relaxation()


@dataclass(slots=True)
class _Relaxing:
    graph: Graph
    nests: Mapping[str, tuple[Layer, ...]]
    accelerator: Accelerator
    every_memory_keeps: bool
    operands: Mapping[str, frozenset[str]]
    prices_room: bool
    free: Collection[str] = ()
    mac_pj: float = 0.0
    feeding_pj: dict[str, float] = field(default_factory=lambda: dict.fromkeys(Operand, 0.0))
    unrolling_pj: float = 0.0
    without_nest_pj: float = 0.0
    computing: Fraction = Fraction(0)
    parameter_bits: dict[str, int] = field(default_factory=dict)
    _rates: MemoryRates = field(init=False)
    _floors: FeedingFloors = field(init=False)
    _ports: PortFloors = field(init=False)
    _needed: Mapping[str, NeededPixels] = field(init=False)
    _joined: JoinedMaps = field(init=False)
    """Concatenations that need no copy. They cost nothing, and a read of one is a read of its parts."""
    _known: dict[_FloorKey, tuple[FloorOfNest, Fraction]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._rates = MemoryRates(self.accelerator)
        self._floors = FeedingFloors(self.accelerator, self.every_memory_keeps)
        self._ports = PortFloors(self.accelerator)
        self._needed = needed_pixels(self.graph, self.nests, self.operands)
        self._joined = joined_maps(self.graph, may_be_views(self.graph))

    def relaxation(self) -> Relaxation:
        for operator in self.graph.operators:
            if operator.name in self.free or (
                operator.outputs[0] in self._joined and not self.nests.get(operator.name)
            ):
                continue
            if self.nests.get(operator.name):
                self._add_nests(operator)
            elif operator.kind not in VIEWS | JOINS or self._is_moved_whole(operator):
                self._add_without_nest(operator)
            elif self.graph.tensor[operator.outputs[0]].role is Role.OUTPUT:
                self.without_nest_pj += self._to_dram_pj(self.graph.tensor[operator.outputs[0]])
        inputs = [ceil(_bits(one) * self._needed[one.name].share(one)) for one in self.graph.with_role(Role.INPUT)]
        read_bits = sum(inputs) + sum(self.parameter_bits.values())
        written_bits = sum(map(_bits, self.graph.with_role(Role.OUTPUT)))
        return Relaxation(
            self.mac_pj if states_mac_energy(self.accelerator) else None,
            dict(self.feeding_pj),
            self.unrolling_pj,
            self.without_nest_pj,
            read_bits * self._pj_of_a_bit(Direction.READ),
            read_bits,
            written_bits,
            ceil(self.computing),
            dram_cycles(self._rates, read_bits, written_bits),
            max(dram_cycles(self._rates, read_bits, 0), dram_cycles(self._rates, 0, written_bits)),
            self._rounding_fj(),
            self._crowding() if self.prices_room else NOTHING_PAID,
        )

    def _crowding(self) -> PaidForRoom:
        """Return the lower bound on the cost of limited on-chip capacity."""
        network = CrowdedNetwork(self.graph, self.nests, self.accelerator, self._needed, self.operands, self._joined)
        again_pj = Fraction(self._pj_of_a_bit(Direction.READ)) if self.every_memory_keeps else Fraction(0)
        return network.crowding(self.parameter_bits, MapEnergies(again_pj, self._passing_pj, self._read_pj))

    def _passing_pj(self, name: str) -> Fraction:
        """Return the least energy in pJ, beyond its floors, of a map's bit that is written to and read from DRAM."""
        producer = self.graph.producer.get(name)
        if producer is None or not self._readers(name) or not self.every_memory_keeps:
            return Fraction(0)
        written = [
            self._floors.written_to_dram_pj(layer, weight_is_an_input=not producer.parameters)
            for layer in self.nests.get(producer.name, ())
        ]
        written = written or [self._beyond_the_cheapest_pj(Operand.OUTPUT, Direction.WRITE)]
        return Fraction(min(written)) + self._read_pj(name)

    def _read_pj(self, name: str) -> Fraction:
        """Return the least energy in pJ, beyond its floor, of a map's bit that is read from DRAM."""
        readers = self._readers(name)
        if not readers or not self.every_memory_keeps:
            return Fraction(0)
        read = [
            self._floors.read_from_dram_pj(layer, weight_is_an_input=not reader.parameters)
            for reader in readers
            for layer in self.nests.get(reader.name, ())
        ]
        if not all(self.nests.get(reader.name) for reader in readers):
            read.append(self._beyond_the_cheapest_pj(Operand.INPUT, Direction.READ))
        return Fraction(min(read))

    def _readers(self, name: str) -> Sequence[Operator]:
        """Return the operators that read a map or a concatenation that contains it."""
        wholes = (whole for whole, parts in self._joined.items() if any(one.part == name for one in parts))
        return [reader for each in (name, *wholes) for reader in self.graph.readers[each]]

    def _beyond_the_cheapest_pj(self, operand: Operand, direction: Direction) -> float:
        """Return the additional energy in pJ of a bit moved at DRAM instead of the cheapest memory.

        It applies to operators without a nest.
        """
        memories = [DRAM, *self._holding(operand)]
        each_fj = {
            name: Fraction(energy_fj, bits)
            for name in memories
            for bits, energy_fj in (self._rates.shortest_access(name, direction),)
        }
        return float((each_fj[DRAM] - min(each_fj.values())) / FEMTO_PER_PICO)

    def _is_moved_whole(self, operator: Operator) -> bool:
        """Return True if a view moves all its elements, in tiles or not: all are needed, or it is never cut."""
        is_needed = operator.kind in MOVED_WHOLE and self._needed[operator.outputs[0]].are_all
        return is_needed or runs_whole(self.graph, operator, ())

    def _add_nests(self, operator: Operator) -> None:
        output = self.graph.tensor[operator.outputs[0]]
        needed, weights = self._needed[output.name], 0
        for layer in self.nests[operator.name]:
            work = work_of(layer, needed, output)
            floor, cycles = self._floor(operator, layer, work)
            self._add_floor(floor)
            self.computing += cycles
            weights += work.weights
        if needed.are_all:
            self.without_nest_pj += self._filled_pj(output, self.nests[operator.name])
        for name in operator.parameters:
            tensor = self.graph.tensor[name]
            # In an element-wise nest the parameter may be the nest's input, with at least as many elements read.
            bits = min(layer.weight_bits if tensor.bits is None else tensor.bits for layer in self.nests[operator.name])
            most = min(weights * bits, tensor.size_bytes * 8)
            self.parameter_bits[name] = max(self.parameter_bits.get(name, 0), most)

    def _filled_pj(self, output: Tensor, nests: Sequence[Layer]) -> float:
        """Return the least energy in pJ of writing the outputs that no nest computes."""
        elements = prod(output.shape or ()) - sum(layer.elements(Operand.OUTPUT) for layer in nests)
        bits = max(elements, 0) * max(layer.output_bits for layer in nests)
        memories = [DRAM] if output.role is Role.OUTPUT else [DRAM, *self._holding(Operand.OUTPUT)]
        least = (self._rates.shortest_access(memory, Direction.WRITE) for memory in memories)
        return bits * float(min(Fraction(energy_fj) / size for size, energy_fj in least) / FEMTO_PER_PICO)

    def _floor(self, operator: Operator, layer: Layer, work: NestWork) -> tuple[FloorOfNest, Fraction]:
        """Return the energy floor of a nest, and its least cycles in the units or at a port (cached)."""
        origins = origins_of(self.graph, operator, layer, self.nests[operator.name])
        key = layer, work, origins
        if key not in self._known:
            floor = min((self._floors.of(layer, work, one) for one in origins), key=lambda one: one.energy_pj)
            cycles = Fraction(work.macs, floor.units)
            if self.every_memory_keeps:
                cycles = max(cycles, self._ports.cycles(layer, work, weight_is_an_input=not operator.parameters))
            self._known[key] = floor, cycles
        return self._known[key]

    def _add_floor(self, floor: FloorOfNest) -> None:
        self.mac_pj += floor.mac_pj
        self.feeding_pj[Operand.INPUT] += floor.input_pj
        self.feeding_pj[Operand.WEIGHT] += floor.weight_pj
        self.feeding_pj[Operand.OUTPUT] += floor.output_pj
        self.unrolling_pj += floor.unrolling_pj

    def _add_without_nest(self, operator: Operator) -> None:
        """Add the floor of an operator without a nest, with each operand in its cheapest memory.

        Inputs and parameters of the network count once for all their readers.
        """
        moved: list[MovedOperand] = []
        for operand in operands_of(self.graph, operator):
            memories = [DRAM, *self._holding(operand.operand)]
            is_written = operand.operand is Operand.OUTPUT
            direction = Direction.WRITE if is_written else Direction.READ
            moved.append(MovedOperand(direction, operand.bits, memories))
            self.without_nest_pj += self._least_pj(operand, memories, direction)
            for band in operand.bands:
                if band.role is Role.PARAMETER:
                    known = self.parameter_bits.get(band.name, 0)
                    self.parameter_bits[band.name] = max(known, min(band.size_bytes * 8, operand.bits))
        self.computing += least_cycles_to_move(self._rates, moved)

    def _least_pj(self, operand: BandedOperand, memories: list[str], direction: Direction) -> float:
        roles = {band.role for band in operand.bands}
        if roles & set(FROM_OUTSIDE):
            return 0.0
        if Role.OUTPUT in roles and direction is Direction.WRITE:
            return sum(map(self._to_dram_pj, operand.bands))
        least_fj = min(self._rates.energy_fj(memory, direction, operand.bits) for memory in memories)
        return float(least_fj / FEMTO_PER_PICO)

    def _holding(self, operand: Operand) -> list[str]:
        return [level.memory.name for level in self._rates.addressed if operand in level.memory.holds]

    def _to_dram_pj(self, tensor: Tensor) -> float:
        return _bits(tensor) * self._pj_of_a_bit(Direction.WRITE)

    def _pj_of_a_bit(self, direction: Direction) -> float:
        shortest_bits, energy_fj = self._rates.shortest_access(DRAM, direction)
        return float(energy_fj / shortest_bits / FEMTO_PER_PICO)

    def _rounding_fj(self) -> float:
        """Return the maximum rounding loss: half a femtojoule for each Compute and each Copy that the bound counts.

        The Copies load a band of a parameter or an input, store a band of an output, or store or load a band of a map
        between operators. There are at most as many bands as elements, and of a parameter as slices of channels. The
        loss is 0 if each access and each MAC costs whole femtojoules.
        """
        array = self.accelerator.array
        energies_fj = [Fraction(str((array and array.mac_energy_pj) or 0.0)) * FEMTO_PER_PICO]
        for memory in (*(level.memory.name for level in self.accelerator.levels), DRAM):
            energies_fj += [self._rates.shortest_access(memory, way)[1] for way in (Direction.READ, Direction.WRITE)]
        if all(energy.denominator == 1 for energy in energies_fj):
            return 0.0
        cut = (*self.graph.with_role(Role.INPUT), *self.graph.with_role(Role.OUTPUT))
        bands = sum(prod(tensor.shape) if tensor.shape else tensor.size_bytes for tensor in cut)
        passing = self.graph.with_role(Role.ACTIVATION)
        bands += 2 * sum(prod(tensor.shape) if tensor.shape else tensor.size_bytes for tensor in passing)
        bands += sum(self._bands_of_parameter(tensor.name) for tensor in self.graph.with_role(Role.PARAMETER))
        return (MOST_TILE_OPERATORS + bands) / 2

    def _bands_of_parameter(self, name: str) -> int:
        """Return the most bands of a parameter: one for each output channel if its reader runs in slices of them."""
        readers = self.graph.readers[name]
        channels = [
            (self.graph.tensor[reader.outputs[0]].shape or ())[CHANNELS]
            for reader in readers
            if len(readers) == 1 and whole_inputs(self.graph, reader) is not None
        ]
        return max(channels, default=1)


def _bits(tensor: Tensor) -> int:
    """Return the bits of a tensor's elements, without padding of the last byte."""
    if tensor.shape is None or tensor.bits is None:
        return tensor.size_bytes * 8
    return prod(tensor.shape) * tensor.bits
