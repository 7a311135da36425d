"""Total cost of the tiles of a fused group (DeFiNES, step 6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.fused_network import StreamedOperator
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated
from onchip.arch.memory import DRAM, Operand
from onchip.model.group.layers import CopiesCost, LayerRun, TileRun
from onchip.model.layer.cost import LayerCost
from onchip.model.layer.limits import Accesses
from onchip.model.layer.tiles import MACS
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest

MAC_ENTRY: Final = (MACS, EnergyCause.MAC)


@dataclass(frozen=True, slots=True)
class FusedLatency:
    """The cycles of a group, summed over layers and tiles; the first four parts are those of `layer_latency.Latency`.

    `preparation` covers loads before a layer, stores after it, and copies.
    """

    ideal: float = 0.0
    unused: float = 0.0
    stall: float = 0.0
    drain: float = 0.0
    preload_and_offload: float = 0.0
    copies: float = 0.0

    @property
    def preparation(self) -> float:
        """Return the cycles of preloads, offloads and copies."""
        return self.preload_and_offload + self.copies

    @property
    def total(self) -> float:
        """Return the cycles of all parts together."""
        return self.ideal + self.unused + self.stall + self.drain + self.preparation

    def __add__(self, other: FusedLatency) -> FusedLatency:
        return FusedLatency(
            self.ideal + other.ideal,
            self.unused + other.unused,
            self.stall + other.stall,
            self.drain + other.drain,
            self.preload_and_offload + other.preload_and_offload,
            self.copies + other.copies,
        )


@dataclass(frozen=True, slots=True)
class FusedSums:
    """The summed cost of tiles: `energies_pj` by memory (or the MACs) and cause, `accesses` in elements.

    Accesses are by memory, operand and cause. The MACs, and a memory, have no entry if the accelerator does not state
    their energy: the total is unknown then. `moved_bits` are each memory's reads and writes, with partial sums at their
    width there. `macs` are those of the layers' tiles, recomputation included.
    """

    energies_pj: dict[tuple[str, EnergyCause], float] = field(default_factory=dict)
    accesses: dict[tuple[str, str, EnergyCause], int] = field(default_factory=dict)
    latency: FusedLatency = FusedLatency()
    macs: int = 0
    moved_bits: dict[str, int] = field(default_factory=dict)

    @property
    def energy_pj(self) -> float:
        """Return the energy of all memories and causes in pJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_pj)

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if there are MACs or accesses of unknown energy."""
        known = {memory for memory, _ in self.energies_pj}
        is_unknown = (self.macs and MAC_ENTRY not in self.energies_pj) or any(
            bits and memory not in known for memory, bits in self.moved_bits.items()
        )
        return None if is_unknown else sum(self.energies_pj.values())

    def stated_by(self, accelerator: Accelerator) -> FusedSums:
        """Return the same sums without the energies that the accelerator does not state."""
        stating = {level.memory.name for level in accelerator.levels if level.access is not None}
        stating |= {DRAM} if accelerator.dram is not None and accelerator.dram.access is not None else set()
        stating |= {MACS} if accelerator.array is not None and accelerator.array.mac_energy_pj is not None else set()
        return replace(self, energies_pj={place: pj for place, pj in self.energies_pj.items() if place[0] in stating})

    @property
    def cycles(self) -> float:
        """Return the cycles of all parts of the latency together."""
        return self.latency.total

    @property
    def energies_by_name_pj(self) -> dict[tuple[str, str], float]:
        """Return the energies in pJ by memory and name of the cause."""
        return {(memory, str(cause)): energy for (memory, cause), energy in self.energies_pj.items()}

    def energy_of(self, cause: EnergyCause) -> float | None:
        """Return the energy in pJ of one cause over all memories, or None if it is unknown."""
        if any(why is cause and (memory, why) not in self.energies_pj for memory, _, why in self.accesses):
            return None
        return sum(energy for (_, one), energy in self.energies_pj.items() if one is cause)

    def accesses_of(self, memory: str, cause: EnergyCause) -> int:
        """Return the elements read and written in a memory, over all operands."""
        return sum(count for (one, _, why), count in self.accesses.items() if (one, why) == (memory, cause))


def total(parts: Iterable[FusedSums]) -> FusedSums:
    """Return the sums of parts that run one after the other."""
    energies: dict[tuple[str, EnergyCause], float] = defaultdict(float)
    accesses: dict[tuple[str, str, EnergyCause], int] = defaultdict(int)
    moved_bits: dict[str, int] = defaultdict(int)
    latency, macs = FusedLatency(), 0
    for part in parts:
        for place, energy in part.energies_pj.items():
            energies[place] += energy
        for access, count in part.accesses.items():
            accesses[access] += count
        for memory, bits in part.moved_bits.items():
            moved_bits[memory] += bits
        latency += part.latency
        macs += part.macs
    return FusedSums(dict(energies), dict(accesses), latency, macs, dict(moved_bits))


def times(part: FusedSums, count: int) -> FusedSums:
    """Return the sums of `count` equal runs."""
    one = part.latency
    return FusedSums(
        {place: energy * count for place, energy in part.energies_pj.items()},
        {access: elements * count for access, elements in part.accesses.items()},
        FusedLatency(
            one.ideal * count,
            one.unused * count,
            one.stall * count,
            one.drain * count,
            one.preload_and_offload * count,
            one.copies * count,
        ),
        part.macs * count,
        {memory: bits * count for memory, bits in part.moved_bits.items()},
    )


@dataclass(slots=True)
class Sums:
    """The adder of tile runs; common parts of runs are broken down once."""

    offloading_is_free: bool = False
    _layers: dict[tuple[int, bool], tuple[LayerCost, FusedSums]] = field(default_factory=dict)
    _copies: dict[int, tuple[CopiesCost, FusedSums]] = field(default_factory=dict)

    def of(self, run: TileRun) -> FusedSums:
        """Return the sums of one tile: its layers and its copies."""
        copies = (*run.loads, *(layer.copies for layer in run.layers))
        return total([*map(self._of_layer, run.layers), *map(self._of_copies, copies)])

    def _of_layer(self, layer: LayerRun) -> FusedSums:
        key = id(layer.cost), layer.tile.is_addition
        if key not in self._layers:
            found = sums_of_layer(
                layer.cost, is_addition=layer.tile.is_addition, offloading_is_free=self.offloading_is_free
            )
            self._layers[key] = layer.cost, found
        return self._layers[key][1]

    def _of_copies(self, copies: CopiesCost) -> FusedSums:
        if id(copies) not in self._copies:
            self._copies[id(copies)] = copies, sums_of_copies(copies)
        return self._copies[id(copies)][1]


def sums_of_layer(cost: LayerCost, *, is_addition: bool, offloading_is_free: bool) -> FusedSums:
    """Return the cost of a layer by cause; an addition's weights are activations."""

    def cause(operand: str) -> EnergyCause:
        return EnergyCause.WEIGHT if operand == Operand.WEIGHT and not is_addition else EnergyCause.ACTIVATION

    energies: dict[tuple[str, EnergyCause], float] = defaultdict(float)
    for (memory, operand), energy in cost.memory_energy_pj.items():
        energies[memory, cause(operand)] += energy
    if cost.mac_energy_pj is not None:
        energies[MAC_ENTRY] = cost.mac_energy_pj
    accesses: dict[tuple[str, str, EnergyCause], int] = defaultdict(int)
    for one in cost.accesses:
        accesses[one.memory, str(one.operand), cause(one.operand)] += one.elements
    own = cost.latency
    preparation = own.preload + (0 if offloading_is_free else own.offload)
    latency = FusedLatency(own.ideal, own.unused, own.stall, own.drain, preparation)
    return FusedSums(dict(energies), dict(accesses), latency, cost.macs, _moved_bits(cost.accesses))


def sums_of_copies(cost: CopiesCost) -> FusedSums:
    """Return the sums of simultaneous copies."""
    energies: dict[tuple[str, EnergyCause], float] = defaultdict(float)
    accesses: dict[tuple[str, str, EnergyCause], int] = defaultdict(int)
    for one, energy in cost.accesses:
        if energy is not None:
            energies[one.memory, EnergyCause.COPY] += energy
        accesses[one.memory, str(one.operand), EnergyCause.COPY] += one.elements
    latency, moved_bits = FusedLatency(copies=cost.cycles), _moved_bits(one for one, _ in cost.accesses)
    return FusedSums(dict(energies), dict(accesses), latency, moved_bits=moved_bits)


def _moved_bits(accesses: Iterable[Accesses]) -> dict[str, int]:
    """Return the bits moved by memory."""
    found: dict[str, int] = defaultdict(int)
    for one in accesses:
        found[one.memory] += one.elements * one.bits
    return dict(found)


def moved_sums(moved: Sequence[StreamedOperator], accelerator: Accelerator) -> tuple[FusedSums, ...]:
    """Return the cost of each operator, as `schedule` costs an operator without a loop nest whose operands all stream.

    Its cycles are those of copies; element accesses are not counted. Raises AcceleratorError if DRAM lacks a port of a
    direction.
    """
    return tuple(_sums(one, accelerator) for one in moved)


def _sums(one: StreamedOperator, accelerator: Accelerator) -> FusedSums:
    cost = cost_without_nest((OperandAtHome(operand, bits, 0, None) for operand, bits in one.operands), accelerator)
    energies = dict[tuple[str, EnergyCause], float]()
    for (memory, operand), energy_pj in cost.access_pj.items():
        cause = EnergyCause.WEIGHT if operand == Operand.WEIGHT else EnergyCause.ACTIVATION
        energies[memory, cause] = energies.get((memory, cause), 0.0) + energy_pj
    moved_bits = {DRAM: cost.dram_read_bits + cost.dram_written_bits}
    return FusedSums(energies, {}, FusedLatency(copies=cost.cycles), 0, moved_bits)
