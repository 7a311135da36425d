"""Common parts of the CP-SAT models with a boolean for each operator and step, as in COSMA's formulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from onchip.answer.result import SearchResult
from onchip.ir.tensor import Role
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.model.lifetimes.precedence import Windows
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import solve_for_result

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
        self,
        begun: Mapping[StepPlace, cp_model.IntVar],
        clauses: Iterable[tuple[int, Sequence[cp_model.LiteralT]]],
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
