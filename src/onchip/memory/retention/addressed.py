"""Order, residencies and addresses in one CP-SAT model, without links between scratchpads.

It serves small graphs whose optimum the cheaper searches leave open. As in COSMA's formulation, it has a boolean for
each operator and step; `StepModel` is its part that the model with links shares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from onchip.answer.problem import Objective, Placement
from onchip.answer.result import SearchResult, Status
from onchip.ir.tensor import Role
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, non_compulsory_cost
from onchip.model.lifetimes.indexed import IndexedProblem, Overwritable, Windows, bits
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class StepModelParams:
    """Sizes up to which a model is built and solved in reasonable time."""

    addressed: int = 40_000
    """Steps x tensors x scratchpads, without links."""
    linked: int = 6_000
    """Steps x tensors x pairs of scratchpads, with links."""


PARAMS: Final = StepModelParams()


@dataclass(frozen=True, slots=True)
class StepPlace:
    """A tensor in a scratchpad (by number) in a step."""

    tensor: int
    memory: int
    step: int

    @property
    def before(self) -> StepPlace:
        """Return the place of the same tensor one step earlier."""
        return StepPlace(self.tensor, self.memory, self.step - 1)


class StepModel(ABC, Generic[AnswerT]):
    """Booleans and constraints of orders, places and offsets; a subclass adds how tensors arrive and what that costs.

    `_runs` has a boolean for each operator and step. Of each place, a tensor is `_at` it or not, is `_computed` there,
    and has an `_offset` in units.
    """

    method: str

    def __init__(self, indexed: IndexedProblem) -> None:
        from ortools.sat.python import cp_model

        self._indexed = indexed
        self._model = model = cp_model.CpModel()
        self._steps = range(indexed.operator_count)
        self._windows = windows = Windows.of(indexed)
        self._tensors = [tensor for tensor, life in enumerate(windows.lifetimes) if life]
        self._runs = [
            {s: model.new_bool_var(f"runs_{o}_{s}") for s in window} for o, window in enumerate(windows.steps)
        ]
        places = [
            StepPlace(tensor, memory, step)
            for tensor in self._tensors
            for memory in self._memories_of(tensor)
            for step in self._life(tensor)
        ]
        self._at = {place: model.new_bool_var(f"at_{place}") for place in places}
        self._offset = {place: model.new_int_var(0, self._last_offset(place), f"offset_{place}") for place in places}
        self._computed = {
            place: model.new_bool_var(f"computed_{place}")
            for place in places
            if indexed.written_in[place.tensor] >> place.memory & 1
            and place.step in self._runs_of_producer(place.tensor)
        }
        self._each_operator_runs_once_after_its_predecessors()
        self._reads_are_where_the_array_takes_them()
        self._an_operator_writes_an_output_into_one_scratchpad()

    @abstractmethod
    def _memories_of(self, tensor: int) -> Sequence[int]:
        """Return the scratchpads in which a tensor may be of use."""

    @abstractmethod
    def _life(self, tensor: int) -> range:
        """Return the steps in which a tensor may be of use."""

    @abstractmethod
    def _extract(self, solver: cp_model.CpSolver) -> AnswerT:
        """Return the answer that the solver has found."""

    def solve(self, run: Run) -> SearchResult[AnswerT]:
        """Solve within the time left to the run; INFEASIBLE means that no answer exists within the bounds."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        return solve_for_result(solver, self._model, run, self.method, lambda: self._extract(solver))

    # What may be where

    def _last_offset(self, place: StepPlace) -> int:
        view = self._indexed.views[place.memory]
        return (view.memory.capacity_bytes - view.sizes_bytes[place.tensor]) // view.memory.alignment_bytes

    def _units(self, place: StepPlace) -> int:
        return self._indexed.views[place.memory].room.units[place.tensor]

    def _bytes(self, place: StepPlace, offset_units: int) -> int:
        return offset_units * self._indexed.views[place.memory].memory.alignment_bytes

    def _is_computed(self, tensor: int) -> bool:
        return self._indexed.producer[tensor] >= 0

    def _is_output(self, tensor: int) -> bool:
        return self._indexed.tensors[tensor].role is Role.OUTPUT

    def _runs_of_producer(self, tensor: int) -> dict[int, cp_model.IntVar]:
        return self._runs[self._indexed.producer[tensor]] if self._is_computed(tensor) else {}

    # Constraints

    def _each_operator_runs_once_after_its_predecessors(self) -> None:
        for runs in self._runs:
            self._model.add_exactly_one(runs.values())
        for step in self._steps:
            self._model.add_exactly_one(runs[step] for runs in self._runs if step in runs)
        step_of = [sum(step * literal for step, literal in runs.items()) for runs in self._runs]
        for operator, befores in enumerate(self._indexed.predecessor_lists):
            for before in befores:
                self._model.add(step_of[before] + 1 <= step_of[operator])

    def _reads_are_where_the_array_takes_them(self) -> None:
        for operator, reads in enumerate(self._indexed.read_lists):
            for tensor in reads:
                for step, runs in self._runs[operator].items():
                    places = (StepPlace(tensor, memory, step) for memory in bits(self._indexed.read_in[tensor]))
                    self._model.add_bool_or(*(self._at[p] for p in places if p in self._at), runs.negated())

    def _an_operator_writes_an_output_into_one_scratchpad(self) -> None:
        for tensor in filter(self._is_computed, self._tensors):
            for step, runs in self._runs_of_producer(tensor).items():
                places = [StepPlace(tensor, memory, step) for memory in self._memories_of(tensor)]
                self._model.add(sum(self._computed[p] for p in places if p in self._computed) == runs)

    def _residents_have_room(self, present: Mapping[StepPlace, cp_model.IntVar]) -> None:
        """Residents of a step do not overlap; the sums are implied, and strengthen the linear relaxation.

        A tensor that may end within the last, partial unit of the capacity may use it.
        """
        held: dict[tuple[int, int], list[StepPlace]] = {}
        for place in self._at:
            held.setdefault((place.memory, place.step), []).append(place)
        for (memory, _), places in held.items():
            self._model.add_no_overlap(self._range(place, present[place]) for place in places)
            room = self._indexed.views[memory].room
            short = [self._at[place] for place in places if room.may_end_short >> place.tensor & 1]
            one_more = self._model.new_bool_var("")
            used = sum(self._units(place) * present[place] for place in places)
            self._model.add(used <= room.capacity_units + one_more)
            self._model.add_bool_or(*short, one_more.negated())

    def _range(self, place: StepPlace, present: cp_model.IntVar) -> cp_model.IntervalVar:
        return self._model.new_optional_fixed_size_interval_var(self._offset[place], self._units(place), present, "")

    def _a_tensor_has_one_residency_or_each_of_one_step(
        self, begun: Mapping[StepPlace, cp_model.IntVar], clauses: Iterable[tuple[int, Sequence[cp_model.LiteralT]]]
    ) -> None:
        """Places in which a residency has `begun`; one literal of a tensor's clause is true unless it stays on."""
        residencies_of: dict[int, list[cp_model.IntVar]] = {tensor: [] for tensor in self._tensors}
        for place, literal in begun.items():
            residencies_of[place.tensor].append(literal)
        is_pinned = {tensor: self._model.new_bool_var(f"pinned_{tensor}") for tensor in self._tensors}
        for tensor, residencies in residencies_of.items():
            self._model.add(sum(residencies) <= 1).only_enforce_if(is_pinned[tensor])
        for tensor, clause in clauses:
            self._model.add_bool_or(is_pinned[tensor], *clause)

    # Objective

    def _minimise(self, objective: cp_model.LinearExprT, lower_bound: int, upper_bound: int | None) -> None:
        self._model.add(objective >= lower_bound)
        if upper_bound is not None:
            self._model.add(objective <= upper_bound)
        self._model.minimize(objective)

    def _compulsory_cost(self) -> int:
        """Return the cost of the compulsory transfers at their cheapest (COSMA, Eq. 12)."""
        loaded = (self._indexed.load_costs[one] for one in self._tensors if not self._is_computed(one))
        written = (one for one in self._tensors if self._is_computed(one) and self._is_output(one))
        return sum(loaded) + sum(self._indexed.store_costs[one] for one in written)


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
