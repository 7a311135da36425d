"""Order, residencies and addresses in one CP-SAT model: the last word where addresses cost traffic.

Time-indexed like COSMA's formulation, so it is for small graphs, and only after the search has
proven a bound in bytes and found that its optimum does not pack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.analysis.indexed import IndexedProblem, bits
from onchip.plan.problem import Objective
from onchip.plan.result import Result, Status, Stop
from onchip.solve.compose import Residency, Schedule
from onchip.solve.interruptible import cp_sat_is_within_reach, solve_interruptibly
from onchip.solve.joint.incumbent import Incumbent
from onchip.solve.limits import Run

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD = "addressed"
LARGEST_MODEL = 40_000
QUICK_MODEL = 200


@dataclass(frozen=True, slots=True)
class AddressedSchedule:
    """A schedule with the offset in bytes of each of its residencies."""

    schedule: Schedule
    offsets_bytes: tuple[int, ...]


def is_quick(indexed: IndexedProblem) -> bool:
    """Whether the model is solved in less time than it takes to look for other optima."""
    return indexed.operator_count * len(indexed.tensors) <= QUICK_MODEL


def is_small_enough(indexed: IndexedProblem) -> bool:
    """Whether the model (steps x tensors) can be built and solved in reasonable time."""
    return indexed.operator_count * len(indexed.tensors) <= LARGEST_MODEL


class AddressedModel:
    """Steps 0..n-1; per operator and step `runs`; per tensor and step `resident`, `begins`, `offset`."""

    def __init__(self, indexed: IndexedProblem, lower_bound: int, upper_bound: int | None) -> None:
        from ortools.sat.python import cp_model

        self._indexed = indexed
        self._model = cp_model.CpModel()
        self._steps = range(indexed.operator_count)
        self._tensors = range(len(indexed.tensors))
        self._make_variables()
        self._each_operator_runs_once_and_each_step_runs_one()
        self._operators_run_after_their_predecessors()
        self._operands_are_resident()
        self._a_residency_begins_with_compute_or_load()
        self._residents_do_not_overlap()
        self._an_offset_stays_within_a_residency()
        self._minimise(lower_bound, upper_bound)

    # Variables

    def _make_variables(self) -> None:
        model, steps = self._model, self._steps
        operators = range(self._indexed.operator_count)
        memory = self._indexed.memory
        self._runs = [[model.new_bool_var(f"runs_{o}_{s}") for s in steps] for o in operators]
        self._resident = [[model.new_bool_var(f"resident_{t}_{s}") for s in steps] for t in self._tensors]
        self._begins = [[model.new_bool_var(f"begins_{t}_{s}") for s in steps] for t in self._tensors]
        self._loads = [[model.new_bool_var(f"loads_{t}_{s}") for s in steps] for t in self._tensors]
        self._spilled = [model.new_bool_var(f"spilled_{t}") for t in self._tensors]
        last_units = [(memory.capacity_bytes - size) // memory.alignment_bytes for size in self._indexed.sizes_bytes]
        self._offset = [
            [model.new_int_var(0, last, f"offset_{t}_{s}") for s in steps] for t, last in enumerate(last_units)
        ]

    # Constraints

    def _each_operator_runs_once_and_each_step_runs_one(self) -> None:
        for runs in self._runs:
            self._model.add_exactly_one(runs)
        for step in self._steps:
            self._model.add_exactly_one(runs[step] for runs in self._runs)

    def _operators_run_after_their_predecessors(self) -> None:
        for operator, befores in enumerate(self._indexed.predecessors):
            for before in bits(befores):
                self._model.add(self._step_of(before) + 1 <= self._step_of(operator))

    def _operands_are_resident(self) -> None:
        for operator, operands in enumerate(self._indexed.operand_lists):
            for tensor in operands:
                for step in self._steps:
                    self._model.add_implication(self._runs[operator][step], self._resident[tensor][step])

    def _a_residency_begins_with_compute_or_load(self) -> None:
        for tensor in self._tensors:
            producer = self._indexed.producer[tensor]
            for step in self._steps:
                resident, begins, loads = (v[tensor][step] for v in (self._resident, self._begins, self._loads))
                before = self._resident[tensor][step - 1] if step else 0
                self._model.add(resident <= begins + before)
                self._model.add(begins <= resident)
                computed = self._runs[producer][step] if producer >= 0 else 0
                self._model.add(begins <= loads + computed)
                if producer >= 0:
                    self._model.add(loads <= sum(self._runs[producer][:step]))

    def _residents_do_not_overlap(self) -> None:
        units, memory = self._indexed.room.units, self._indexed.memory
        for step in self._steps:
            ranges = [
                self._model.new_optional_fixed_size_interval_var(
                    self._offset[t][step], units[t], self._resident[t][step], f"range_{t}_{step}"
                )
                for t in self._tensors
            ]
            self._model.add_no_overlap(ranges)
            used = sum(units[t] * self._resident[t][step] for t in self._tensors)
            self._model.add(used <= memory.capacity_bytes // memory.alignment_bytes + 1)

    def _an_offset_stays_within_a_residency(self) -> None:
        for tensor in self._tensors:
            for step in self._steps[1:]:
                stays = (self._resident[tensor][step], self._begins[tensor][step].negated())
                equal = self._model.add(self._offset[tensor][step] == self._offset[tensor][step - 1])
                equal.only_enforce_if(stays)

    # Objective

    def _minimise(self, lower_bound: int, upper_bound: int | None) -> None:
        peak = self._indexed.problem.objective is Objective.PEAK
        objective = self._arena() if peak else self._non_compulsory_cost()
        self._model.add(objective >= lower_bound)
        if upper_bound is not None:
            self._model.add(objective <= upper_bound)
        self._model.minimize(objective)

    def _arena(self) -> cp_model.LinearExprT:
        """The highest end of any residency; nothing is loaded but the network's inputs, once."""
        memory = self._indexed.memory
        arena = self._model.new_int_var(0, memory.capacity_bytes, "arena")
        for tensor, size in enumerate(self._indexed.sizes_bytes):
            is_source = self._indexed.producer[tensor] < 0
            self._model.add(sum(self._loads[tensor]) <= (1 if is_source else 0))
            for step in self._steps:
                end = self._offset[tensor][step] * memory.alignment_bytes + size
                self._model.add(arena >= end).only_enforce_if(self._resident[tensor][step])
        return arena

    def _non_compulsory_cost(self) -> cp_model.LinearExprT:
        """Every load but the first of what DRAM had, and one spill of what returns (COSMA, Eq. 12)."""
        indexed = self._indexed
        terms: list[cp_model.LinearExprT] = []
        for tensor, loads in enumerate(self._loads):
            terms.extend(indexed.load_costs[tensor] * load for load in loads)
            if indexed.producer[tensor] < 0 and indexed.readers[tensor]:
                terms.append(-indexed.load_costs[tensor])
            if not indexed.backed >> tensor & 1:
                terms.append(indexed.store_costs[tensor] * self._spilled[tensor])
                for load in loads:
                    self._model.add_implication(load, self._spilled[tensor])
        return sum(terms)

    # Extract

    def solve(self, run: Run) -> Result[AddressedSchedule]:
        """Solve within what is left of the run's time; INFEASIBLE means none within the bounds."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        status = solve_interruptibly(solver, self._model, run)
        if status == cp_model.INFEASIBLE:
            return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
        if status == cp_model.UNKNOWN:
            return Result(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
        known = Status.OPTIMAL if status == cp_model.OPTIMAL else Status.FEASIBLE
        bound = round(solver.best_objective_bound)
        return Result(known, self._extract(solver), round(solver.objective_value), bound, run.seconds, METHOD)

    def _extract(self, solver: cp_model.CpSolver) -> AddressedSchedule:
        order = tuple(
            next(o for o, runs in enumerate(self._runs) if solver.boolean_value(runs[step])) for step in self._steps
        )
        alignment = self._indexed.memory.alignment_bytes
        placed: list[tuple[Residency, int]] = []
        for tensor in self._tensors:
            start: int | None = None
            for step in (*self._steps, self._steps.stop):
                inside = step < self._steps.stop and solver.boolean_value(self._resident[tensor][step])
                if start is not None and (not inside or solver.boolean_value(self._begins[tensor][step])):
                    offset = solver.value(self._offset[tensor][start]) * alignment
                    placed.append((Residency(tensor, start, step), offset))
                    start = None
                if inside and start is None:
                    start = step
        placed.sort(key=lambda pair: (pair[0].start, pair[0].tensor))
        return AddressedSchedule(Schedule(order, tuple(r for r, _ in placed)), tuple(offset for _, offset in placed))

    def _step_of(self, operator: int) -> cp_model.LinearExprT:
        return sum(step * runs for step, runs in enumerate(self._runs[operator]))


def prove_with_addresses(incumbent: Incumbent) -> None:
    """Let addresses join the model, between the bound and the best plan so far."""
    if incumbent.is_proven or not is_small_enough(incumbent.indexed) or not cp_sat_is_within_reach(incumbent.run):
        return
    result = AddressedModel(incumbent.indexed, incumbent.lower_bound, incumbent.value).solve(incumbent.run)
    incumbent.stopped_by = result.stopped_by
    incumbent.is_infeasible = result.status is Status.INFEASIBLE
    if result.answer is not None and result.objective_value is not None:
        incumbent.raise_bound(result.lower_bound)
        incumbent.offer(result.answer.schedule, result.answer.offsets_bytes, result.objective_value, "with addresses")
