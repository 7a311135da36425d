"""The best mapping of a nest at its homes in the room that is left: proven, or in time the best that LOMA has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.result import Result, Status
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
from onchip.solve.run.limits import Limits, Run
from onchip.solve.schedule.mapped import MappedNest, Room
from onchip.solve.schedule.runs import NestPlace

SHARE_OF_A_NEST: Final = 0.2
"""Of the time that is left, for the proof of one nest's mapping."""
LOMA_SECONDS: Final = 1.0
LEAST_SECONDS: Final = 0.01
_READS: Final = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)


@dataclass(frozen=True, slots=True)
class BestMapper:
    """Asks the exact mapper for each nest, and LOMA for what it has not proven in time."""

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
        """What is not proven in its share of the time may be no better than what LOMA finds in milliseconds."""
        share = SHARE_OF_A_NEST * self.run.seconds_left
        proven = self._asked("exact", layer, machine, share)
        if proven is not None and proven.status is Status.OPTIMAL:
            return proven.answer
        found = [one for one in (proven, self._asked("loma", layer, machine, LOMA_SECONDS)) if one is not None]
        answers = [one for one in found if one.answer is not None and one.objective_value is not None]
        return min(answers, key=lambda one: one.objective_value or 0).answer if answers else None

    def _asked(self, name: str, layer: Layer, machine: Accelerator, seconds: float) -> Result[LayerMapping] | None:
        method = method_named(name)
        is_limited = self.run.limits.time_limit_seconds is not None
        limits = Limits(max(seconds, LEAST_SECONDS)) if is_limited else Limits()
        own = Run(limits, interrupt=self.run.interrupt)
        try:
            if self.cache is not None:
                return self.cache.solve(method, layer, machine, self.objective, own)
            return method(layer, machine, self.objective, own)
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
