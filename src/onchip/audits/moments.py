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

from ortools.sat.python import cp_model

from onchip.answer.problem import Objective, Placement
from onchip.arch.memory import DRAM
from onchip.audits.facts import ProblemFacts, units_of
from onchip.audits.moments_variables import Expression, MomentModel, MomentPlace, MomentsVariables
from onchip.audits.search import in_time
from onchip.ir.tensor import Role
from onchip.search.budget.clock import Deadline


class MomentsModel(MomentsVariables):
    """The variables with constraints and the objective; `onchip.audits.program` reads a solution.

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
