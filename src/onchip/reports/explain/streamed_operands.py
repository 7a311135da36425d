"""What each Compute of a schedule streams from and to DRAM, operand by operand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.ir.layer import Layer
from onchip.model.layer.cost import access_of, energy_pj, layer_cost
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE, MemoryRates
from onchip.ops.derive.banded_operands import BandedOperand
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.scheduling.program.runs import NestPlace

_READS: Final = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)


@dataclass(frozen=True, slots=True)
class StreamedBits:
    """Bits that DRAM reads, or writes, of one operand, and the picojoules of that at DRAM."""

    direction: Direction
    bits: int
    energy_pj: float


@dataclass(frozen=True, slots=True)
class StreamedOperand:
    """An operand of the Compute of `step` that has no home; `moved` may be both ways, of sums in the making."""

    step: int
    operator: str
    operand: BandedOperand
    moved: tuple[StreamedBits, ...]


@dataclass(frozen=True)
class StreamedOperands:
    """Finds the streamed operands of a schedule; what moves of each is the cost model's."""

    history: ScheduleHistory

    def found(self) -> Iterator[StreamedOperand]:
        """Yield every streamed operand of every Compute, in the order in which they run."""
        known: dict[NestPlace, Mapping[Operand, tuple[StreamedBits, ...]]] = {}
        for number, (name, homes) in enumerate(self.history.homes.items()):
            step, places = self.history.steps[name], self.history.nest_places[name]
            for place in places:
                if place not in known:
                    known[place] = self._of_nest(place)
            roles = (Operand.INPUT, *((Operand.WEIGHT,) if len(step.operands) > 2 else ()), Operand.OUTPUT)
            for at, (operand, home) in enumerate(zip(step.operands, homes, strict=True)):
                if home is not None:
                    continue
                if places:
                    moved = tuple(one for place in places for one in known[place].get(roles[at], ()))
                else:
                    moved = (self._once(operand),)
                yield StreamedOperand(number, name, operand, moved)

    def _once(self, operand: BandedOperand) -> StreamedBits:
        """An operator without a nest moves each operand once."""
        direction = Direction.WRITE if operand.operand is Operand.OUTPUT else Direction.READ
        energy_fj = self._rates.energy_fj(DRAM, direction, operand.bits)
        return StreamedBits(direction, operand.bits, float(energy_fj / FEMTOJOULES_PER_PICOJOULE))

    def _of_nest(self, place: NestPlace) -> Mapping[Operand, tuple[StreamedBits, ...]]:
        accelerator = self.history.accelerator
        problem = LayerProblem(place.layer, accelerator, place.homes, {}, place.weight_is_an_input)
        mapping = self._mappings[place.stack, place.layer, place.homes]
        found: dict[Operand, tuple[StreamedBits, ...]] = {}
        for one in layer_cost(problem, mapping).accesses:
            if one.memory == DRAM:
                direction = Direction.READ if one.move in _READS else Direction.WRITE
                energy = energy_pj(one, access_of(accelerator, DRAM))
                moved = StreamedBits(direction, one.elements * one.bits, energy)
                found[Operand(one.operand)] = (*found.get(Operand(one.operand), ()), moved)
        return found

    @cached_property
    def _mappings(self) -> Mapping[tuple[int, Layer, Homes], LayerMapping]:
        return {(one.stack, one.layer, one.homes): one.mapping for one in self.history.schedule.mappings}

    @cached_property
    def _rates(self) -> MemoryRates:
        return MemoryRates(self.history.accelerator)
