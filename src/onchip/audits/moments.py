"""The exact model of a plan: operator order, and residencies with addresses at each moment.

A moment is a step, or one of `transits` between two steps, in which only copies between scratchpads take place. At each
moment the residents of a scratchpad fit. Between two moments residencies end, continue or begin. They begin with a load
(DRAM has a copy), with a copy along a link (its source stays), or with the operator that writes the tensor into one
scratchpad. A store needs residency at the preceding moment. Residencies without readers, unneeded copies and unwritten
bytes are omitted: a plan without them costs no more.

Without links no transits are needed: every event between two steps can also happen at the next step. With links
`transits` limits the number of consecutive copies between two steps, so that only solutions are conclusive. If transits
need no capacity (`room_between=False`), transits for the longest chain of copies make the model a relaxation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ortools.sat.python import cp_model

from onchip.answer.problem import Objective, Placement
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM
from onchip.audits.crossings import ProblemFacts, units_of
from onchip.audits.finding import in_time
from onchip.ir.tensor import Role
from onchip.search.budget.clock import Deadline

Expression: TypeAlias = Any
"""A linear expression or a number; ortools has no common type for these."""


@dataclass(frozen=True, slots=True)
class MomentModel:
    """The variant of the model (see `onchip.audits.moments`); solutions cost less than `bound`."""

    bound: int
    with_addresses: bool
    transits: int = 0
    room_between: bool = True


@dataclass(frozen=True, slots=True)
class MomentPlace:
    """A tensor in a scratchpad at a moment, each by index."""

    tensor: int
    memory: int
    moment: int

    @property
    def before(self) -> MomentPlace:
        """Return the same place at the preceding moment."""
        return MomentPlace(self.tensor, self.memory, self.moment - 1)


class MomentsVariables:
    """Boolean variables for the possible events at each place and step, and an offset for each place.

    Raises OutOfTimeError if the deadline passes during construction.
    """

    def __init__(self, facts: ProblemFacts, shape: MomentModel, deadline: Deadline) -> None:
        self.model = cp_model.CpModel()
        self.facts = facts
        self.shape = shape
        self.deadline = deadline
        self.stride = shape.transits + 1
        self.steps = len(facts.operators)
        self.moments = self.steps * self.stride + shape.transits
        self.memories = facts.problem.memories
        self.links = facts.problem.transfers.links if facts.problem.objective is not Objective.PEAK else ()
        self.resident: dict[MomentPlace, cp_model.IntVar] = {}
        self.goes_on: dict[MomentPlace, cp_model.IntVar] = {}
        self.loaded: dict[MomentPlace, cp_model.IntVar] = {}
        self.written: dict[MomentPlace, cp_model.IntVar] = {}
        self.moved: dict[tuple[int, MomentPlace], cp_model.IntVar] = {}
        self.stored: dict[MomentPlace, cp_model.IntVar] = {}
        self.in_dram: dict[tuple[int, int], cp_model.IntVar] = {}
        self.offset_units: dict[MomentPlace, cp_model.IntVar] = {}
        self.done: dict[tuple[int, int], cp_model.IntVar] = {}
        self._variables()

    # Variables

    def _variables(self) -> None:
        for operator, positions in enumerate(self.facts.positions):
            for step in positions[:-1]:
                self.done[operator, step] = self.boolean()
        for tensor, uses in enumerate(self.facts.uses):
            in_time(self.deadline)
            if uses:
                self._variables_of(tensor)

    def _variables_of(self, tensor: int) -> None:
        one, moments = self.facts.tensors[tensor], self.life(tensor)
        for moment in range(moments.start, moments.stop + 1):
            if not self.facts.is_source(one):
                self.in_dram[tensor, moment] = self.boolean()
            for memory in self.memories_for(tensor):
                place = MomentPlace(tensor, memory, moment)
                if not self.facts.is_source(one) and moment > moments.start:
                    self.stored[place] = self.boolean()
                if moment < moments.stop:
                    self._variables_at(place)

    def _variables_at(self, place: MomentPlace) -> None:
        self.resident[place] = self.boolean()
        self.loaded[place] = self.boolean()
        if place.before in self.resident:
            self.goes_on[place] = self.boolean()
        names = [memory.name for memory in self.memories]
        for source in range(len(names)):
            if (names[source], names[place.memory]) in self.links and place.moment > self.life(place.tensor).start:
                self.moved[source, place] = self.boolean()
        producer = self.facts.producer[place.tensor]
        if producer is not None and self.step_of(place.moment) in self.facts.positions[producer]:
            writer = self.facts.operators[producer]
            if place.memory in self.facts.holders(writer, self.facts.tensors[place.tensor]):
                self.written[place] = self.boolean()
        if self.shape.with_addresses:
            memory = self.memories[place.memory]
            spare = memory.capacity_bytes - self.facts.tensors[place.tensor].size_bytes
            self.offset_units[place] = self.model.new_int_var(0, spare // memory.alignment_bytes, "")

    def life(self, tensor: int) -> range:
        """Return the moments at which residency of a tensor can be useful: up to its last use."""
        uses, positions = self.facts.uses[tensor], self.facts.positions
        first = min(positions[use].start for use in uses) * self.stride
        if self.facts.producer[tensor] is not None:
            first += self.shape.transits
        if self.links:
            is_output = self.facts.tensors[tensor].role is Role.OUTPUT
            start = 0 if self.facts.producer[tensor] is None else first
            return range(start, self.moments if is_output else self._last_use(tensor) + 1)
        return range(first, self._last_use(tensor) + 1)

    def _last_use(self, tensor: int) -> int:
        return self.moment_of(max(self.facts.positions[use].stop - 1 for use in self.facts.uses[tensor]))

    def memories_for(self, tensor: int) -> list[int]:
        """Return the indices of the scratchpads that are large enough for a tensor."""
        size_bytes = self.facts.tensors[tensor].size_bytes
        return [at for at, memory in enumerate(self.memories) if size_bytes <= memory.capacity_bytes]

    def boolean(self) -> cp_model.IntVar:
        """Return a new variable of the model."""
        return self.model.new_bool_var("")

    # Expressions

    def moment_of(self, step: int) -> int:
        """Return the moment in which the operator of a step runs."""
        return step * self.stride + self.shape.transits

    def step_of(self, moment: int) -> int | None:
        """Return the step whose operator runs at a moment; None between two steps."""
        step, between = divmod(moment, self.stride)
        return step if between == self.shape.transits and step < self.steps else None

    def is_done(self, operator: int, step: int) -> Expression:
        """Return an expression that is 1 if an operator runs in a step or has run before it."""
        positions = self.facts.positions[operator]
        if step < positions.start:
            return 0
        return 1 if step >= positions.stop - 1 else self.done[operator, step]

    def runs(self, operator: int, step: int) -> Expression:
        """Return an expression that is 1 if an operator runs in a step."""
        return self.is_done(operator, step) - self.is_done(operator, step - 1)

    def has_copy(self, tensor: int, moment: int) -> Expression:
        """Return an expression that is 1 if DRAM has a copy of a tensor before a moment."""
        if self.facts.is_source(self.facts.tensors[tensor]):
            return 1
        return self.in_dram.get((tensor, moment), 0)


class MomentsModel(MomentsVariables):
    """The variables with constraints and the objective; `onchip.audits.moments` reads a solution.

    Raises OutOfTimeError if the deadline passes during construction.
    """

    def __init__(self, facts: ProblemFacts, shape: MomentModel, deadline: Deadline) -> None:
        super().__init__(facts, shape, deadline)
        self._constraints()
        self._objective()

    # Constraints

    def _constraints(self) -> None:
        self._one_operator_runs_in_each_step_after_those_it_needs()
        for place in self.resident:
            in_time(self.deadline)
            self._a_residency_goes_on_or_begins_once(place)
            self._what_begins_has_a_source(place)
        self._an_output_is_written_into_one_scratchpad()
        self._dram_has_a_copy_since_a_store()
        self._operands_are_resident_where_they_are_held()
        self._residents_fit()
        if self.shape.with_addresses:
            self._residents_do_not_overlap()
        if self.facts.problem.placement is Placement.STATIC:
            self._a_tensor_stays_or_is_anew_for_each_operator()
        if self.facts.problem.objective is Objective.PEAK:
            self._nothing_is_loaded_twice_or_spilled()
        self._what_is_needed_is_somewhere()

    def _one_operator_runs_in_each_step_after_those_it_needs(self) -> None:
        """Constrain `done`: monotone, step + 1 operators done after a step, producers done before their readers."""
        for (operator, step), is_done in self.done.items():
            self.model.add(is_done >= self.is_done(operator, step - 1))
        for step in range(self.steps):
            free = [operator for operator, positions in enumerate(self.facts.positions) if step in positions[:-1]]
            past = sum(step >= positions.stop - 1 for positions in self.facts.positions)
            if free:
                self.model.add(sum(self.done[operator, step] for operator in free) == step + 1 - past)
        for tensor, uses in enumerate(self.facts.uses):
            producer = self.facts.producer[tensor]
            for reader in uses[1:] if producer is not None else ():
                for step in self.facts.positions[reader]:
                    self.model.add(self.is_done(reader, step) <= self.is_done(uses[0], step - 1))

    def _a_residency_goes_on_or_begins_once(self, place: MomentPlace) -> None:
        """Require exactly one origin: residency at the preceding moment and offset, a load, a copy, or a write."""
        ways = [self.loaded[place]]
        ways += [self.goes_on[place]] if place in self.goes_on else []
        ways += [self.written[place]] if place in self.written else []
        ways += [self.moved[source, place] for source in self._sources(place)]
        self.model.add(sum(ways) == self.resident[place])
        if place in self.goes_on:
            self.model.add_implication(self.goes_on[place], self.resident[place.before])
            if self.shape.with_addresses:
                same = self.offset_units[place] == self.offset_units[place.before]
                self.model.add(same).only_enforce_if(self.goes_on[place])

    def _sources(self, place: MomentPlace) -> list[int]:
        return [source for source in range(len(self.memories)) if (source, place) in self.moved]

    def _what_begins_has_a_source(self, place: MomentPlace) -> None:
        """Require a DRAM copy for a load, and for a copy a source resident before and, if capacity counts, still."""
        self.model.add(self.loaded[place] <= self.has_copy(place.tensor, place.moment))
        for source in self._sources(place):
            other = MomentPlace(place.tensor, source, place.moment)
            there = self.goes_on if self.shape.room_between else self.resident
            needed = there.get(other if self.shape.room_between else other.before)
            if needed is None:
                self.model.add(self.moved[source, place] == 0)
            else:
                self.model.add_implication(self.moved[source, place], needed)

    def _an_output_is_written_into_one_scratchpad(self) -> None:
        for tensor, producer in enumerate(self.facts.producer):
            for step in self.facts.positions[producer] if producer is not None else ():
                places = [MomentPlace(tensor, memory, self.moment_of(step)) for memory in range(len(self.memories))]
                ways = [self.written[place] for place in places if place in self.written]
                self.model.add(sum(ways) == self.runs(producer or 0, step))

    def _dram_has_a_copy_since_a_store(self) -> None:
        """Require at most one store of a tensor, from a resident of the preceding moment; outputs must be stored."""
        for (tensor, moment), is_there in self.in_dram.items():
            before = self.in_dram.get((tensor, moment - 1), 0)
            stores = []
            for memory in self.memories_for(tensor):
                place = MomentPlace(tensor, memory, moment)
                if place in self.stored:
                    stores.append(self.stored[place])
                    self.model.add_implication(self.stored[place], self.resident[place.before])
            self.model.add(is_there == before + sum(stores))
            if moment == self.life(tensor).stop and self.facts.tensors[tensor].role is Role.OUTPUT:
                self.model.add(is_there == 1)

    def _operands_are_resident_where_they_are_held(self) -> None:
        for tensor, uses in enumerate(self.facts.uses):
            in_time(self.deadline)
            for use in uses:
                if use == self.facts.producer[tensor]:
                    continue
                holders = self.facts.holders(self.facts.operators[use], self.facts.tensors[tensor])
                for step in self.facts.positions[use]:
                    places = (MomentPlace(tensor, memory, self.moment_of(step)) for memory in holders)
                    there = [self.resident[place] for place in places if place in self.resident]
                    self.model.add(sum(there) >= self.runs(use, step))

    def _at(self) -> dict[tuple[int, int], list[MomentPlace]]:
        """Return the places by scratchpad and moment, for moments at which capacity counts."""
        found: dict[tuple[int, int], list[MomentPlace]] = {}
        for place in self.resident:
            if self.shape.room_between or self.step_of(place.moment) is not None:
                found.setdefault((place.memory, place.moment), []).append(place)
        return found

    def _residents_fit(self) -> None:
        """Limit residents in alignment units, which residencies do not share; the last unit may be partly outside."""
        for (number, _), places in self._at().items():
            memory = self.memories[number]
            units = [units_of(self.facts.tensors[place.tensor].size_bytes, memory) for place in places]
            total = sum(unit * self.resident[place] for unit, place in zip(units, places, strict=True))
            if sum(units) > (room := units_of(memory.capacity_bytes, memory)):
                self.model.add(total <= room)

    def _residents_do_not_overlap(self) -> None:
        for (number, _), places in self._at().items():
            intervals = []
            for place in places:
                units = units_of(self.facts.tensors[place.tensor].size_bytes, self.memories[number])
                begin, is_there = self.offset_units[place], self.resident[place]
                intervals.append(self.model.new_optional_fixed_size_interval_var(begin, units, is_there, ""))
            self.model.add_no_overlap(intervals)

    def _a_tensor_stays_or_is_anew_for_each_operator(self) -> None:
        """Require for static placement a single residency, or none that continues from one step to another."""
        for tensor, uses in enumerate(self.facts.uses):
            if not uses:
                continue
            stays = self.boolean()
            begun = [
                *(var for place, var in self.loaded.items() if place.tensor == tensor),
                *(var for place, var in self.written.items() if place.tensor == tensor),
                *(var for (_, place), var in self.moved.items() if place.tensor == tensor),
            ]
            self.model.add(sum(begun) == 1).only_enforce_if(stays)
            self._none_goes_on_into_another_step(tensor, stays)

    def _none_goes_on_into_another_step(self, tensor: int, stays: cp_model.IntVar) -> None:
        """Forbid residencies that continue from the moment of a step to that of the next step, unless `stays`."""
        for place in self.resident:
            if place.tensor == tensor and self.step_of(place.moment) is not None:
                moments = range(place.moment - self.stride + 1, place.moment + 1)
                chain = [self.goes_on.get(MomentPlace(tensor, place.memory, moment)) for moment in moments]
                if all(one is not None for one in chain):
                    self.model.add_bool_or([stays, *(one.negated() for one in chain if one is not None)])

    def _nothing_is_loaded_twice_or_spilled(self) -> None:
        """Allow for the peak objective only first loads of network inputs and parameters, and writes of outputs."""
        for tensor, one in enumerate(self.facts.tensors):
            loads = [var for place, var in self.loaded.items() if place.tensor == tensor]
            self.model.add(sum(loads) <= (1 if self.facts.is_source(one) else 0))
        for place, is_stored in self.stored.items():
            if self.facts.tensors[place.tensor].role is not Role.OUTPUT:
                self.model.add(is_stored == 0)

    def _what_is_needed_is_somewhere(self) -> None:
        """Add the implied constraint that a written tensor with later readers is in DRAM or on the chip."""
        for tensor, uses in enumerate(self.facts.uses):
            producer = self.facts.producer[tensor]
            for reader in uses[1:] if producer is not None else ():
                for step in range(self.facts.positions[uses[0]].start, self.facts.positions[reader].stop):
                    moment = self.moment_of(step)
                    places = (MomentPlace(tensor, memory, moment) for memory in range(len(self.memories)))
                    there = [self.resident[place] for place in places if place in self.resident]
                    needed = self.is_done(uses[0], step) - self.is_done(reader, step - 1)
                    self.model.add(sum(there) + self.has_copy(tensor, moment) >= needed)

    # Objective

    def _objective(self) -> None:
        if self.facts.problem.objective is Objective.PEAK:
            total = self._arenas()
        else:
            total = self._transfers() - self.facts.compulsory_cost
        self.model.add(total <= self.shape.bound - 1)
        self.model.minimize(total)

    def _transfers(self) -> Expression:
        """Return the cost of all loads, stores and copies."""
        problem, names = self.facts.problem, [memory.name for memory in self.memories]

        def cost(place: MomentPlace, source: str, target: str) -> int:
            return problem.transfer_cost(self.facts.tensors[place.tensor], source, target)

        terms: list[Expression] = []
        terms += [cost(place, DRAM, names[place.memory]) * var for place, var in self.loaded.items()]
        terms += [cost(place, names[place.memory], DRAM) * var for place, var in self.stored.items()]
        terms += [cost(at, names[source], names[at.memory]) * var for (source, at), var in self.moved.items()]
        return sum(terms)

    def _arenas(self) -> Expression:
        """Return the highest end addresses; without addresses the resident bytes less the last padding."""
        arenas = [self.model.new_int_var(0, memory.capacity_bytes, "") for memory in self.memories]
        for (number, _), places in self._at().items():
            alignment = self.memories[number].alignment_bytes
            units = [units_of(self.facts.tensors[at.tensor].size_bytes, self.memories[number]) for at in places]
            total = sum(unit * self.resident[place] for unit, place in zip(units, places, strict=True))
            self.model.add(arenas[number] >= alignment * total - (alignment - 1))
            for place in places if self.shape.with_addresses else ():
                end = self.offset_units[place] * alignment + self.facts.tensors[place.tensor].size_bytes
                self.model.add(arenas[number] >= end).only_enforce_if(self.resident[place])
        return sum(arenas)


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
