"""Mappings on the network on a chip of CoSA's authors: cycles, lower bounds, and a search by both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cosa.by_floor import FloorSearch, SearchedMapping
from cosa.layer_floor import floor_of_layer
from cosa.mesh import (
    COSA_DRAM,
    COSA_ELEMENTS,
    COSA_NETWORK,
    ElementRounds,
    element_rounds,
    floor_of_rounds,
    layer_on_network,
)

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Dram, MemoryLevel
from onchip.errors import InputError

NEVER = float("inf")


@dataclass(slots=True)
class NetworkTimes:
    """Cycles of one layer's mappings by one way to count; mappings with equal traffic are simulated once.

    `known` is keyed by rounds, so both ways to count may share it.
    """

    problem: LayerProblem
    rounds_simulated: int
    has_refills: bool
    known: dict[str, float] = field(default_factory=dict)

    def cycles(self, mapping: LayerMapping | None) -> float:
        """Return the cycles of a mapping; infinite without a mapping, or if the mapping does not suit this network."""
        if mapping is None or (rounds := self._rounds(mapping)) is None:
            return NEVER
        seen = str(rounds)
        if seen not in self.known:
            run = layer_on_network(self.problem, mapping, self.rounds_simulated, has_refills=self.has_refills)
            self.known[seen] = run.cycles
        return self.known[seen]

    def floor(self, mapping: LayerMapping) -> float:
        """Cycles that its simulation does not end before."""
        rounds = self._rounds(mapping)
        return NEVER if rounds is None else floor_of_rounds(rounds)

    def searched(self, starts: Iterable[LayerMapping | None], most_simulated: int) -> SearchedMapping:
        """Return the mapping with the fewest cycles that a search from these finds.

        It ends at the layer's lower bound.
        """
        search = FloorSearch(self.problem, self.floor, self.cycles, lambda mapping: str(self._rounds(mapping)))
        return search.run([one for one in starts if one is not None], most_simulated, floor_of_layer(self.problem))

    def _rounds(self, mapping: LayerMapping) -> ElementRounds | None:
        try:
            rounds = element_rounds(self.problem, mapping, has_refills=self.has_refills)
        except InputError:
            return None
        return rounds if rounds.elements <= COSA_ELEMENTS else None


def with_the_ports_of_the_network(machine: Accelerator) -> Accelerator:
    """Return the machine with DRAM and the shared memory limited to the bits per cycle that the network takes."""
    packet = COSA_NETWORK.payload_bits
    from_dram = packet // (COSA_NETWORK.endpoints[COSA_DRAM].read_cycles + 1)
    from_buffer = packet // COSA_NETWORK.packet_flits
    levels = (*machine.levels[:-1], _with_ports(machine.levels[-1], from_buffer))
    dram = None if machine.dram is None else _dram_with_ports(machine.dram, from_dram)
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    return replace(machine, levels=levels, scratchpads=scratchpads, dram=dram)


def _with_ports(level: MemoryLevel, bits_per_cycle: int) -> MemoryLevel:
    return replace(level, ports=tuple(replace(port, bits_per_cycle=bits_per_cycle) for port in level.ports))


def _dram_with_ports(dram: Dram, bits_per_cycle: int) -> Dram:
    return replace(dram, ports=tuple(replace(port, bits_per_cycle=bits_per_cycle) for port in dram.ports))
