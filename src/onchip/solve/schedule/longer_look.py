"""A longer look for the mappings of a schedule that are not proven."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from onchip.cost.floors.unit_shares import AnyUnrolling
from onchip.cost.schedule.nest_work import work_of_all
from onchip.cost.schedule.port_floor import PortFloors
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Run
from onchip.solve.schedule.attempt import ScheduleAttempt
from onchip.solve.schedule.composition import NestRoom
from onchip.solve.schedule.mapped import KnownMappings
from onchip.solve.schedule.mapped_nest import MappedNest
from onchip.solve.schedule.nest_mapper import BestMapper
from onchip.solve.schedule.runs import NestPlace

SECONDS_OF_A_LONGER_LOOK: Final = 0.5
"""At least, for the mapping of a nest: in less than it had at first nothing new is found."""
MappedAtPlace: TypeAlias = tuple[NestPlace, NestRoom, MappedNest]


@dataclass(frozen=True, slots=True)
class LongerLook:
    """Asks again, those nests first that may gain most.

    With `counts_cycles` that is by their cycles, and they have as much more time; else by their energy, and all have
    the same.
    """

    mappings: KnownMappings
    mapper: BestMapper
    counts_cycles: bool

    def improve(self, best: ScheduleAttempt, left: Run) -> None:
        """The best schedule has what is found, if it is better with that."""
        waiting = [one for one in best.improver.best.composition.nests if not one[2].is_proven]
        gains = [self._to_gain(one) for one in waiting]
        order = sorted((at for at, gain in enumerate(gains) if gain > 0), key=lambda at: -gains[at])
        waiting, gains = [waiting[at] for at in order], [gains[at] for at in order]
        weights = gains if self.counts_cycles else [1.0] * len(gains)
        if left.deadline.is_set and waiting:
            seconds = max(left.seconds_left / len(waiting), SECONDS_OF_A_LONGER_LOOK)
            self.mapper.look_ahead([(nest, room.room) for nest, room, _ in waiting], [self.mapper.objective], seconds)
        is_mapped = False
        for at, (nest, room, known) in enumerate(waiting):
            if left.stop is not None:
                break
            seconds = max(left.seconds_left * weights[at] / sum(weights[at:]), SECONDS_OF_A_LONGER_LOOK)
            mapped = self.mapper.longer(nest, room.room, min(seconds, left.seconds_left))
            if mapped is not None:
                better = min(mapped, known, key=self.mapper.value_of)
                self.mappings.replace(nest, room.room, replace(better, is_quick=False, is_proven=mapped.is_proven))
                is_mapped = True
        if is_mapped:
            with self.mapper.quick():  # those for which there was no time stay as they are
                best.compose_again()

    def _to_gain(self, one: MappedAtPlace) -> float:
        """How much less it may take at most: of its cycles those beyond the least of any mapping, else its energy."""
        nest, room, known = one
        if not self.counts_cycles:
            return room.times * known.cost.energy_pj
        least_gain = 0.0 if self.mapper.objective is MappingObjective.LATENCY else 1.0
        return room.times * max(known.cost.cycles - self._least_cycles(nest), least_gain)

    def _least_cycles(self, nest: NestPlace) -> float:
        """Its work over the units that can be at work, or what has to pass a port."""
        machine, layer = self.mapper.accelerator, nest.layer
        passing = PortFloors(machine).cycles(layer, work_of_all(layer), weight_is_an_input=nest.weight_is_an_input)
        return max(layer.macs / AnyUnrolling(machine).of([layer]).at_work, float(passing))
