"""Order, residencies and addresses in one CP-SAT model, without links between scratchpads.

It serves small graphs whose optimum the cheaper searches leave open.
"""

from __future__ import annotations

from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

from onchip.answer.problem import Objective, Placement
from onchip.answer.result import Status
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, non_compulsory_cost
from onchip.memory.retention.steps import PARAMS, StepModel, StepPlace
from onchip.model.lifetimes.indexed import IndexedProblem, Overwritable, bits
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

PlacedSchedule: TypeAlias = tuple[OperatorSchedule, tuple[int, ...]]
"""A schedule with the offset in bytes of each of its residencies."""


class AddressedModel(StepModel[PlacedSchedule]):
    """The minimum cost between two bounds; a place `begins` a residency, which a Compute or a load brings about.

    A tensor is `_present` at a place if it is at it, and not within another; `_tied` has the inputs that it is within.
    """

    method = "addressed"

    def __init__(self, indexed: IndexedProblem, lower_bound: int, upper_bound: int | None) -> None:
        super().__init__(indexed)
        self._begins = {place: self._model.new_bool_var(f"begins_{place}") for place in self._at}
        self._loads = {place: self._model.new_bool_var(f"loads_{place}") for place in self._at}
        self._present = dict(self._at)
        self._tied: dict[StepPlace, list[tuple[tuple[int, int], cp_model.IntVar]]] = {}
        self._outputs_may_overwrite_inputs()
        self._a_residency_begins_with_compute_or_load()
        self._what_is_loaded_has_been_stored()
        self._an_offset_stays_within_a_residency()
        self._residents_have_room(self._present)
        if indexed.problem.placement is Placement.STATIC:
            clauses = ((place.tensor, (self._begins[place], at.negated())) for place, at in self._at.items())
            self._a_tensor_has_one_residency_or_each_of_one_step(self._begins, clauses)
        peak = indexed.problem.objective is Objective.PEAK
        self._minimise(self._arenas() if peak else self._non_compulsory_cost(), lower_bound, upper_bound)

    def _memories_of(self, tensor: int) -> tuple[int, ...]:
        return tuple(bits(self._indexed.written_in[tensor] | self._indexed.read_in[tensor]))

    def _life(self, tensor: int) -> range:
        return self._windows.lifetimes[tensor]

    # Constraints

    def _outputs_may_overwrite_inputs(self) -> None:
        inside: dict[StepPlace, list[cp_model.IntVar]] = {}
        for operator, inputs in enumerate(self._indexed.overwritable_lists):
            for step, runs in self._runs[operator].items() if inputs else ():
                self._overwrite(inputs, step, runs, inside)
        for place, ties in inside.items():
            self._present[place] = self._model.new_bool_var(f"present_{place}")
            self._model.add(self._present[place] + sum(ties) == self._at[place])

    def _overwrite(
        self,
        inputs: tuple[Overwritable, ...],
        step: int,
        runs: cp_model.IntVar,
        inside: dict[StepPlace, list[cp_model.IntVar]],
    ) -> None:
        """Let each output lie in the bytes of one input of each group, if its operator runs in this step."""
        groups: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        for one in inputs:
            for written, shift_bytes in one.ties:
                tie = self._tie(StepPlace(one.tensor, 0, step), StepPlace(written, 0, step), shift_bytes)
                self._model.add_implication(tie, runs)
                groups.setdefault((one.group, written), []).append(tie)
                within = written if written in one.inside else one.tensor
                inside.setdefault(StepPlace(within, 0, step), []).append(tie)
        for ties in groups.values():
            self._model.add_at_most_one(ties)

    def _tie(self, lender: StepPlace, place: StepPlace, shift_bytes: int) -> cp_model.IntVar:
        """Return a literal: the output lies in the bytes of a resident input, which leaves after the step."""
        model, tie = self._model, self._model.new_bool_var(f"tie_{lender}_{place}")
        model.add_implication(tie, self._at[lender])
        after = StepPlace(lender.tensor, 0, lender.step + 1)
        if after in self._at:
            model.add_bool_or(self._at[after].negated(), self._begins[after], tie.negated())
        shift = shift_bytes // self._indexed.memory.alignment_bytes
        model.add(self._offset[place] == self._offset[lender] + shift).only_enforce_if(tie)
        self._tied.setdefault(place, []).append(((lender.tensor, shift_bytes), tie))
        return tie

    def _a_residency_begins_with_compute_or_load(self) -> None:
        for place, at in self._at.items():
            begins, ways = self._begins[place], [self._loads[place]]
            self._model.add(at <= begins + self._at.get(place.before, 0))
            self._model.add_implication(begins, at)
            if place in self._computed:
                ways.append(self._computed[place])
                self._model.add_implication(self._computed[place], begins)
            self._model.add_bool_or(*ways, begins.negated())

    def _what_is_loaded_has_been_stored(self) -> None:
        """A tensor computed by the network is loaded after its operator has run, an activation after its one spill."""
        for place, loads in self._loads.items():
            if self._is_computed(place.tensor):
                earlier = [runs for step, runs in self._runs_of_producer(place.tensor).items() if step < place.step]
                self._model.add_bool_or(*earlier, loads.negated())
            if not self._indexed.backed >> place.tensor & 1:
                self._model.add_bool_or(*self._stored[place.tensor].values(), loads.negated())

    @cached_property
    def _stored(self) -> list[dict[int, cp_model.IntVar]]:
        """Map each computed tensor to the scratchpads from which it may be stored: those it is written into."""
        stored: list[dict[int, cp_model.IntVar]] = []
        for tensor in range(len(self._indexed.tensors)):
            written_in = bits(self._indexed.written_in[tensor]) if self._is_computed(tensor) else ()
            variables = {memory: self._model.new_bool_var(f"stored_{tensor}_{memory}") for memory in written_in}
            for memory, variable in variables.items():
                computed = [
                    c for place, c in self._computed.items() if (place.tensor, place.memory) == (tensor, memory)
                ]
                self._model.add_bool_or(*computed, variable.negated())
            if variables and self._is_output(tensor):
                self._model.add_exactly_one(variables.values())
            stored.append(variables)
        return stored

    def _an_offset_stays_within_a_residency(self) -> None:
        for place, at in self._at.items():
            if place.before in self._at:
                equal = self._model.add(self._offset[place] == self._offset[place.before])
                equal.only_enforce_if(at, self._begins[place].negated())

    # Objective

    def _arenas(self) -> cp_model.LinearExprT:
        """The highest ends of any residency, added up; nothing is loaded but the network's inputs, once."""
        arenas = []
        for memory, view in enumerate(self._indexed.views):
            arena = self._model.new_int_var(0, view.memory.capacity_bytes, f"arena_{memory}")
            for place in (place for place in self._at if place.memory == memory):
                end = self._offset[place] * view.memory.alignment_bytes + view.sizes_bytes[place.tensor]
                self._model.add(arena >= end).only_enforce_if(self._at[place])
            arenas.append(arena)
        for tensor in range(len(self._indexed.tensors)):
            loads = [load for place, load in self._loads.items() if place.tensor == tensor]
            self._model.add(sum(loads) <= (0 if self._is_computed(tensor) else 1))
        return sum(arenas)

    def _non_compulsory_cost(self) -> cp_model.LinearExprT:
        views = self._indexed.views
        loads = (views[place.memory].load_costs[place.tensor] * load for place, load in self._loads.items())
        stores = (
            views[memory].store_costs[tensor] * variable
            for tensor, stored in enumerate(self._stored)
            for memory, variable in stored.items()
        )
        return sum(loads) + sum(stores) - self._compulsory_cost()

    # Extract

    def _extract(self, solver: cp_model.CpSolver) -> PlacedSchedule:
        order = tuple(
            next(o for o, runs in enumerate(self._runs) if step in runs and solver.boolean_value(runs[step]))
            for step in self._steps
        )
        placed: list[tuple[PlannedResidency, int]] = []
        for tensor in self._tensors:
            for memory in self._memories_of(tensor):
                places = (StepPlace(tensor, memory, step) for step in self._life(tensor))
                at = [place for place in places if solver.boolean_value(self._at[place])]
                starts = [p for p in at if solver.boolean_value(self._begins[p]) or p.before not in at]
                for first, following in zip_longest(starts, starts[1:]):
                    last = max(p.step for p in at if following is None or p.step < following.step)
                    ties = tuple(tie for tie, literal in self._tied.get(first, ()) if solver.boolean_value(literal))
                    residency = PlannedResidency(tensor, first.step, last + 1, memory, ties)
                    placed.append((residency, self._bytes(first, solver.value(self._offset[first]))))
        placed.sort(key=lambda pair: (pair[0].start, pair[0].tensor))
        return OperatorSchedule(order, tuple(one for one, _ in placed)), tuple(offset for _, offset in placed)


def prove_with_addresses(incumbent: PlanIncumbent, run: Run) -> bool:
    """Solve the model between the bound and the best plan so far; return False if the end of the run cut it short."""
    indexed = incumbent.indexed
    size = indexed.operator_count * len(indexed.tensors) * len(indexed.views)
    if incumbent.is_proven or size > PARAMS.addressed or not cp_sat_is_within_reach(run):
        return True
    result = AddressedModel(indexed, incumbent.lower_bound, incumbent.value).solve(run)
    incumbent.stopped_by = result.stopped_by
    incumbent.is_infeasible = result.status is Status.INFEASIBLE
    incumbent.raise_bound(result.lower_bound)
    if result.answer is not None and result.objective_value is not None:
        (schedule, offsets_bytes), value = result.answer, result.objective_value
        if indexed.problem.objective is not Objective.PEAK:
            value = non_compulsory_cost(indexed, schedule)
        incumbent.offer(schedule, offsets_bytes, value, "with addresses")
    return result.status in (Status.OPTIMAL, Status.INFEASIBLE)
