"""Conversion of a solution of the exact model, with addresses, to a plan."""

from __future__ import annotations

from collections.abc import Iterator

from ortools.sat.python import cp_model

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM
from onchip.audits.moments import MomentsModel
from onchip.audits.moments_variables import MomentPlace


class Solution:
    """A solution of a model with addresses."""

    def __init__(self, moments: MomentsModel, solver: cp_model.CpSolver) -> None:
        self._moments = moments
        self._solver = solver
        self._names = [tensor.name for tensor in moments.facts.tensors]
        self._memories = [memory.name for memory in moments.memories]
        self._residents = [place for place, there in moments.resident.items() if solver.boolean_value(there)]

    @property
    def order(self) -> tuple[int, ...]:
        """Return the operators in execution order."""
        moments, last = self._moments, {}
        for operator, positions in enumerate(moments.facts.positions):
            undone = [at for at in positions[:-1] if not self._solver.boolean_value(moments.done[operator, at])]
            last[operator] = positions.start + len(undone)
        return tuple(sorted(last, key=last.__getitem__))

    def plan(self) -> Plan:
        """Return the plan: at each moment stores, frees, allocations, loads and copies, then the operator."""
        return Plan(self._moments.memories, tuple(self._instructions()))

    def _instructions(self) -> Iterator[Instruction]:
        moments, order = self._moments, self.order
        for moment in range(moments.moments + 1):
            yield from self._stores(moment)
            yield from self._ends(moment)
            yield from self._beginnings(moment)
            step, between = divmod(moment, moments.stride)
            if between == moments.shape.transits and step < moments.steps:
                yield Compute(moments.facts.operators[order[step]].name)

    def _stores(self, moment: int) -> Iterator[Instruction]:
        for place, is_stored in self._moments.stored.items():
            if place.moment == moment and self._solver.boolean_value(is_stored):
                yield Copy(self._names[place.tensor], self._memories[place.memory], DRAM)

    def _ends(self, moment: int) -> Iterator[Instruction]:
        for place in self._residents:
            if place.moment == moment - 1 and not self._goes_on(MomentPlace(place.tensor, place.memory, moment)):
                yield Free(self._names[place.tensor], self._memories[place.memory])

    def _goes_on(self, place: MomentPlace) -> bool:
        goes_on = self._moments.goes_on.get(place)
        return goes_on is not None and bool(self._solver.boolean_value(goes_on))

    def _beginnings(self, moment: int) -> Iterator[Instruction]:
        """Yield all allocations, then the copies into them; outputs are written by their operators."""
        begun = [place for place in self._residents if place.moment == moment and not self._goes_on(place)]
        for place in begun:
            alignment = self._moments.memories[place.memory].alignment_bytes
            offset = self._solver.value(self._moments.offset_units[place]) * alignment
            yield Allocate(self._names[place.tensor], self._memories[place.memory], offset)
        for place in begun:
            source = self._source(place)
            if source is not None:
                yield Copy(self._names[place.tensor], source, self._memories[place.memory])

    def _source(self, place: MomentPlace) -> str | None:
        """Return DRAM or the source scratchpad of a copy; None if an operator writes the tensor."""
        if self._solver.boolean_value(self._moments.loaded[place]):
            return DRAM
        for (source, target), is_moved in self._moments.moved.items():
            if target == place and self._solver.boolean_value(is_moved):
                return self._memories[source]
        return None
