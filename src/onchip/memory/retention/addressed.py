"""Order, residencies and addresses in one CP-SAT model, without links between scratchpads.

The model has a boolean for each step, as COSMA's formulation has. It serves small graphs whose optimum the cheaper
searches leave open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

from onchip.answer.problem import Objective, Placement
from onchip.answer.result import SearchResult, Status
from onchip.ir.tensor import Role
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, non_compulsory_cost
from onchip.model.lifetimes.indexed import IndexedProblem, Overwritable, bits
from onchip.model.lifetimes.precedence import Windows
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


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


class PlaceVariables:
    """Booleans for each operator and step (`runs`), and for each place: the tensor is `at` it, begins there, how."""

    def __init__(self, indexed: IndexedProblem) -> None:
        from ortools.sat.python import cp_model

        self._indexed = indexed
        self._model = cp_model.CpModel()
        self._steps = range(indexed.operator_count)
        self._windows = Windows.of(indexed)
        self._make_variables()

    def _make_variables(self) -> None:
        model, windows = self._model, self._windows
        self._runs = [
            {s: model.new_bool_var(f"runs_{o}_{s}") for s in window} for o, window in enumerate(windows.steps)
        ]
        self._places = [
            StepPlace(tensor, memory, step)
            for tensor, lifetime in enumerate(windows.lifetimes)
            for memory in self._memories_of(tensor)
            for step in lifetime
        ]
        self._at = {place: model.new_bool_var(f"at_{place}") for place in self._places}
        self._begins = {place: model.new_bool_var(f"begins_{place}") for place in self._places}
        self._loads = {place: model.new_bool_var(f"loads_{place}") for place in self._places}
        self._computed = {
            place: model.new_bool_var(f"computed_{place}")
            for place in self._places
            if self._indexed.written_in[place.tensor] >> place.memory & 1
            and place.step in self._runs_of_producer(place.tensor)
        }

    def _memories_of(self, tensor: int) -> tuple[int, ...]:
        """The scratchpads in which a tensor may be of use."""
        return tuple(bits(self._indexed.written_in[tensor] | self._indexed.read_in[tensor]))

    def _runs_of_producer(self, tensor: int) -> dict[int, cp_model.IntVar]:
        producer = self._indexed.producer[tensor]
        return self._runs[producer] if producer >= 0 else {}

    def _step_of(self, operator: int) -> cp_model.LinearExprT:
        return sum(step * runs for step, runs in self._runs[operator].items())


class TieVariables(PlaceVariables):
    """`_offset` of each place; `_present` where a tensor is at it, and not within another; which inputs are `_tied`."""

    def __init__(self, indexed: IndexedProblem) -> None:
        super().__init__(indexed)
        self._offset = {place: self._offset_at(place) for place in self._places}
        self._present = dict(self._at)
        self._tied: dict[StepPlace, list[tuple[tuple[int, int], cp_model.IntVar]]] = {}
        self._inside: dict[StepPlace, list[cp_model.IntVar]] = {}
        for operator, inputs in enumerate(indexed.overwritable_lists):
            for step, runs in self._runs[operator].items() if inputs else ():
                self._overwrite(inputs, step, runs)
        for place, ties in self._inside.items():
            self._present[place] = self._model.new_bool_var(f"present_{place}")
            self._model.add(self._present[place] + sum(ties) == self._at[place])

    def _offset_at(self, place: StepPlace) -> cp_model.IntVar:
        view = self._indexed.views[place.memory]
        last = (view.memory.capacity_bytes - view.sizes_bytes[place.tensor]) // view.memory.alignment_bytes
        return self._model.new_int_var(0, last, f"offset_{place}")

    def _overwrite(self, inputs: tuple[Overwritable, ...], step: int, runs: cp_model.IntVar) -> None:
        """Let each output lie in the bytes of one input of each group, if its operator runs in this step."""
        groups: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        for one in inputs:
            for written, shift_bytes in one.ties:
                tie = self._tie(StepPlace(one.tensor, 0, step), StepPlace(written, 0, step), shift_bytes)
                self._model.add_implication(tie, runs)
                groups.setdefault((one.group, written), []).append(tie)
                inside = written if written in one.inside else one.tensor
                self._inside.setdefault(StepPlace(inside, 0, step), []).append(tie)
        for ties in groups.values():
            self._model.add_at_most_one(ties)

    def _tie(self, lender: StepPlace, place: StepPlace, shift_bytes: int) -> cp_model.IntVar:
        """The input is there, the output lies in its bytes, and it leaves after the step."""
        model, tie = self._model, self._model.new_bool_var(f"tie_{lender}_{place}")
        model.add_implication(tie, self._at[lender])
        after = StepPlace(lender.tensor, 0, lender.step + 1)
        if after in self._at:
            model.add_bool_or(self._at[after].negated(), self._begins[after], tie.negated())
        shift = shift_bytes // self._indexed.memory.alignment_bytes
        model.add(self._offset[place] == self._offset[lender] + shift).only_enforce_if(tie)
        self._tied.setdefault(place, []).append(((lender.tensor, shift_bytes), tie))
        return tie


METHOD = "addressed"
LARGEST_MODEL = 40_000


@dataclass(frozen=True, slots=True)
class AddressedSchedule:
    """A schedule with the offset in bytes of each of its residencies."""

    schedule: OperatorSchedule
    offsets_bytes: tuple[int, ...]


def is_small_enough(indexed: IndexedProblem) -> bool:
    """True if the model (steps x tensors x scratchpads) can be built and solved in reasonable time."""
    return indexed.operator_count * len(indexed.tensors) * len(indexed.views) <= LARGEST_MODEL


class AddressedModel(TieVariables):
    """The model with addresses: `runs` for each operator and step; `at`, start and offset for each place."""

    def __init__(self, indexed: IndexedProblem, lower_bound: int, upper_bound: int | None) -> None:
        super().__init__(indexed)
        self._each_operator_runs_once_and_each_step_runs_one()
        self._operators_run_after_their_predecessors()
        self._operands_are_where_the_array_takes_them()
        self._a_residency_begins_with_compute_or_load()
        self._an_operator_writes_an_output_into_one_scratchpad()
        self._what_is_loaded_has_been_stored()
        self._residents_do_not_overlap()
        self._an_offset_stays_within_a_residency()
        self._residents_fit()
        if indexed.problem.placement is Placement.STATIC:
            self._a_tensor_stays_for_its_whole_life_or_never()
        self._minimise(lower_bound, upper_bound)

    # Constraints

    def _each_operator_runs_once_and_each_step_runs_one(self) -> None:
        for runs in self._runs:
            self._model.add_exactly_one(runs.values())
        for step in self._steps:
            self._model.add_exactly_one(runs[step] for runs in self._runs if step in runs)

    def _operators_run_after_their_predecessors(self) -> None:
        for operator, befores in enumerate(self._indexed.predecessor_lists):
            for before in befores:
                self._model.add(self._step_of(before) + 1 <= self._step_of(operator))

    def _operands_are_where_the_array_takes_them(self) -> None:
        indexed = self._indexed
        for operator, operands in enumerate(indexed.operand_lists):
            for tensor in operands:
                taken_in = (indexed.written_in if indexed.producer[tensor] == operator else indexed.read_in)[tensor]
                for step, runs in self._runs[operator].items():
                    at = [self._at[StepPlace(tensor, memory, step)] for memory in bits(taken_in)]
                    self._model.add_bool_or(*at, runs.negated())

    def _a_residency_begins_with_compute_or_load(self) -> None:
        for place, at in self._at.items():
            begins, ways = self._begins[place], [self._loads[place]]
            self._model.add(at <= begins + self._at.get(place.before, 0))
            self._model.add_implication(begins, at)
            if place in self._computed:
                ways.append(self._computed[place])
                self._model.add_implication(self._computed[place], self._runs_of_producer(place.tensor)[place.step])
            self._model.add_bool_or(*ways, begins.negated())

    def _an_operator_writes_an_output_into_one_scratchpad(self) -> None:
        """An output begins in the step of its operator, in one place, since it cannot begin earlier."""
        for tensor, producer in enumerate(self._indexed.producer):
            if producer >= 0:
                computed = [literal for place, literal in self._computed.items() if place.tensor == tensor]
                self._model.add_exactly_one(computed)
        for place, literal in self._computed.items():
            self._model.add_implication(literal, self._begins[place])

    def _what_is_loaded_has_been_stored(self) -> None:
        """A tensor computed by the network is loaded after its operator has run, an activation after its one spill."""
        for place, loads in self._loads.items():
            if self._indexed.producer[place.tensor] >= 0:
                earlier = [runs for step, runs in self._runs_of_producer(place.tensor).items() if step < place.step]
                self._model.add_bool_or(*earlier, loads.negated())
            if not self._indexed.backed >> place.tensor & 1:
                self._model.add_bool_or(*self._stored[place.tensor].values(), loads.negated())

    @cached_property
    def _stored(self) -> list[dict[int, cp_model.IntVar]]:
        """Map each computed tensor to the scratchpads from which it may be stored: those it is written into."""
        stored: list[dict[int, cp_model.IntVar]] = []
        for tensor in range(len(self._indexed.tensors)):
            written_in = bits(self._indexed.written_in[tensor]) if self._indexed.producer[tensor] >= 0 else ()
            variables = {memory: self._model.new_bool_var(f"stored_{tensor}_{memory}") for memory in written_in}
            for memory, variable in variables.items():
                computed = [
                    c for place, c in self._computed.items() if (place.tensor, place.memory) == (tensor, memory)
                ]
                self._model.add_bool_or(*computed, variable.negated())
            if variables and self._indexed.tensors[tensor].role is Role.OUTPUT:
                self._model.add_exactly_one(variables.values())
            stored.append(variables)
        return stored

    def _residents_do_not_overlap(self) -> None:
        for places in self._places_by_memory_and_step.values():
            self._model.add_no_overlap(
                self._model.new_optional_fixed_size_interval_var(
                    self._offset[place], self._units(place), self._present[place], f"range_{place}"
                )
                for place in places
            )

    def _residents_fit(self) -> None:
        """Residents of a step fit; a tensor that may end within the last, partial unit of the capacity may use it."""
        for (memory, _), places in self._places_by_memory_and_step.items():
            room = self._indexed.views[memory].room
            short = [self._at[place] for place in places if room.may_end_short >> place.tensor & 1]
            one_more = self._model.new_bool_var("")
            self._model.add(sum(self._units(p) * self._present[p] for p in places) <= room.capacity_units + one_more)
            self._model.add_bool_or(*short, one_more.negated())

    @cached_property
    def _places_by_memory_and_step(self) -> dict[tuple[int, int], list[StepPlace]]:
        by_key: dict[tuple[int, int], list[StepPlace]] = {}
        for place in self._places:
            by_key.setdefault((place.memory, place.step), []).append(place)
        return by_key

    def _units(self, place: StepPlace) -> int:
        return self._indexed.views[place.memory].room.units[place.tensor]

    def _an_offset_stays_within_a_residency(self) -> None:
        for place in self._places:
            if place.before in self._at:
                equal = self._model.add(self._offset[place] == self._offset[place.before])
                equal.only_enforce_if(self._at[place], self._begins[place].negated())

    def _a_tensor_stays_for_its_whole_life_or_never(self) -> None:
        """One residency, or each of one step."""
        for tensor in range(len(self._indexed.tensors)):
            places = [place for place in self._places if place.tensor == tensor]
            is_pinned = self._model.new_bool_var(f"pinned_{tensor}")
            self._model.add(sum(self._begins[place] for place in places) <= 1).only_enforce_if(is_pinned)
            for place in places:
                self._model.add_bool_or(is_pinned, self._begins[place], self._at[place].negated())

    # Objective

    def _minimise(self, lower_bound: int, upper_bound: int | None) -> None:
        peak = self._indexed.problem.objective is Objective.PEAK
        objective = self._arenas() if peak else self._non_compulsory_cost()
        self._model.add(objective >= lower_bound)
        if upper_bound is not None:
            self._model.add(objective <= upper_bound)
        self._model.minimize(objective)

    def _arenas(self) -> cp_model.LinearExprT:
        """The highest ends of any residency, added up; nothing is loaded but the network's inputs, once."""
        arenas = []
        for memory, view in enumerate(self._indexed.views):
            arena = self._model.new_int_var(0, view.memory.capacity_bytes, f"arena_{memory}")
            for place in (place for place in self._places if place.memory == memory):
                end = self._offset[place] * view.memory.alignment_bytes + view.sizes_bytes[place.tensor]
                self._model.add(arena >= end).only_enforce_if(self._at[place])
            arenas.append(arena)
        for tensor in range(len(self._indexed.tensors)):
            loads = [load for place, load in self._loads.items() if place.tensor == tensor]
            self._model.add(sum(loads) <= (1 if self._indexed.producer[tensor] < 0 else 0))
        return sum(arenas)

    def _non_compulsory_cost(self) -> cp_model.LinearExprT:
        """Every transfer, less the compulsory ones at their cheapest (COSMA, Eq. 12)."""
        indexed, views = self._indexed, self._indexed.views
        terms: list[cp_model.LinearExprT] = [
            views[place.memory].load_costs[place.tensor] * load for place, load in self._loads.items()
        ]
        for tensor, stored in enumerate(self._stored):
            terms += (views[memory].store_costs[tensor] * variable for memory, variable in stored.items())
            if indexed.producer[tensor] < 0 and indexed.reader_lists[tensor]:
                terms.append(-indexed.load_costs[tensor])
            elif indexed.tensors[tensor].role is Role.OUTPUT:
                terms.append(-indexed.store_costs[tensor])
        return sum(terms)

    # Extract

    def solve(self, run: Run) -> SearchResult[AddressedSchedule]:
        """Solve within what is left of the run's time; INFEASIBLE means none within the bounds."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        return solve_for_result(solver, self._model, run, METHOD, lambda: self._extract(solver))

    def _extract(self, solver: cp_model.CpSolver) -> AddressedSchedule:
        order = tuple(
            next(o for o, runs in enumerate(self._runs) if step in runs and solver.boolean_value(runs[step]))
            for step in self._steps
        )
        residencies: dict[PlannedResidency, int] = {}
        for tensor, lifetime in enumerate(self._windows.lifetimes):
            for memory in self._memories_of(tensor):
                at = [
                    place
                    for step in lifetime
                    if solver.boolean_value(self._at[place := StepPlace(tensor, memory, step)])
                ]
                starts = [p for p in at if solver.boolean_value(self._begins[p]) or p.before not in at]
                for first, following in zip_longest(starts, starts[1:]):
                    last = [p for p in at if p.step >= first.step and (following is None or p.step < following.step)][
                        -1
                    ]
                    ties = tuple(tie for tie, literal in self._tied.get(first, ()) if solver.boolean_value(literal))
                    residency = PlannedResidency(tensor, first.step, last.step + 1, memory, ties)
                    residencies[residency] = self._offset_bytes(solver, first)
        placed = sorted(residencies.items(), key=lambda pair: (pair[0].start, pair[0].tensor))
        offsets = tuple(offset for _, offset in placed)
        return AddressedSchedule(OperatorSchedule(order, tuple(residency for residency, _ in placed)), offsets)

    def _offset_bytes(self, solver: cp_model.CpSolver, place: StepPlace) -> int:
        alignment = self._indexed.views[place.memory].memory.alignment_bytes
        return solver.value(self._offset[place]) * alignment


def prove_with_addresses(incumbent: PlanIncumbent, run: Run) -> bool:
    """Solve the model between the bound and the best plan so far; return False if the end of the run cut it short."""
    indexed = incumbent.indexed
    if incumbent.is_proven or not is_small_enough(indexed) or not cp_sat_is_within_reach(run):
        return True
    result = AddressedModel(indexed, incumbent.lower_bound, incumbent.value).solve(run)
    incumbent.stopped_by = result.stopped_by
    incumbent.is_infeasible = result.status is Status.INFEASIBLE
    incumbent.raise_bound(result.lower_bound)
    if result.answer is not None and result.objective_value is not None:
        schedule, value = result.answer.schedule, result.objective_value
        if indexed.problem.objective is not Objective.PEAK:
            value = non_compulsory_cost(indexed, schedule)
        incumbent.offer(schedule, result.answer.offsets_bytes, value, "with addresses")
    return result.status in (Status.OPTIMAL, Status.INFEASIBLE)
