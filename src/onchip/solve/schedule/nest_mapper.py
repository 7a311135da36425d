"""The best mapping of a nest at its homes in the room that is left: proven, or in time the best that LOMA has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.cost.layer.cost import layer_cost
from onchip.cost.layer.limits import needed_bits
from onchip.cost.schedule.compute_cost import NestCost
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.solve.mapping.cache import MappingCache
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.registry import method_named
from onchip.solve.run.limits import Run
from onchip.solve.schedule.mapped import MappedNest, Room
from onchip.solve.schedule.runs import NestPlace

_READS: Final = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)


@dataclass(frozen=True, slots=True)
class MethodMapper:
    """Asks one mapping method for each nest."""

    method: str
    accelerator: Accelerator
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None

    def __call__(self, nest: NestPlace, room: Room) -> MappedNest | None:
        """None where nothing fits, or nothing was found in time."""
        machine = _machine(nest, self.accelerator, room)
        mapping = self._mapping(nest.layer, machine)
        if mapping is None:
            return None
        cost = layer_cost(nest.layer, machine, mapping)
        at_dram = [one for one in cost.accesses if one.memory == DRAM]
        return MappedNest(
            mapping,
            NestCost(
                cost.energy_pj,
                ceil(cost.cycles),
                sum(one.elements * one.bits for one in at_dram if one.move in _READS),
                sum(one.elements * one.bits for one in at_dram if one.move not in _READS),
                _workspaces(nest, machine, mapping, room),
                cost.mac_energy_pj,
                cost.memory_energy_pj,
            ),
        )

    def _mapping(self, layer: Layer, machine: Accelerator) -> LayerMapping | None:
        method = method_named(self.method)
        own = Run(self.run.limits, interrupt=self.run.interrupt, started=self.run.started)
        try:
            if self.cache is not None:
                return self.cache.solve(method, layer, machine, self.objective, own).answer
            return method(layer, machine, self.objective, own).answer
        except InputError:
            return None


def _machine(nest: NestPlace, accelerator: Accelerator, room: Room) -> Accelerator:
    """The accelerator as the nest sees it: memories as large as the room, beside operands that are there whole."""
    homes = tuple(nest.homes)
    levels = []
    for level in accelerator.levels:
        memory = level.memory
        if memory.name in room:
            bits = sum(
                nest.layer.elements(operand) * nest.layer.bits(operand)
                for operand, home in homes
                if home == memory.name
            )
            memory = replace(memory, capacity_bytes=max(room[memory.name] + -(-bits // 8), 1))
        if nest.weight_is_an_input:
            holds = tuple(operand for operand in memory.holds if operand is not Operand.WEIGHT)
            if not holds:
                continue
            memory = replace(memory, holds=(*holds, *([Operand.WEIGHT] if Operand.INPUT in holds else [])))
        levels.append(level if memory is level.memory else replace(level, memory=memory))
    return replace(
        accelerator,
        levels=tuple(levels),
        scratchpads=tuple(level.memory for level in levels if level.is_scratchpad),
        links=(),
        homes=homes,
    )


def _workspaces(nest: NestPlace, machine: Accelerator, mapping: LayerMapping, room: Room) -> Room:
    """Bits of all tiles in each addressed memory, without those of operands that are there whole."""
    needs = needed_bits(mapping.layer(nest.layer), machine, mapping)
    whole = {
        (home, str(operand)): nest.layer.elements(operand) * nest.layer.bits(operand) for operand, home in nest.homes
    }
    found = {}
    for name in room:
        bits = sum(
            need - whole.get((memory, operand), 0) for (memory, operand), need in needs.items() if memory == name
        )
        if bits > 0:
            found[name] = -(-bits // 8)
    return found
