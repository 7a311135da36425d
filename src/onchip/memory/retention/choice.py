"""Which states to try to keep next: the program of all choices that have not been tried, by CP-SAT.

What it says a choice costs at least is the loading and writing of all other states, or the bytes that lie there at
once; so what it finds bounds all choices that are left. The choices tried are excluded one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.answer.problem import Objective, Problem
from onchip.ir.state import State
from onchip.model.capacity.states import loaded_cost, memories_of_state
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True)
class Choice:
    """Which states stay in which scratchpad (by name), and what this choice and all that are left cost at least."""

    memory_of: Mapping[State, str]
    lower_bound: int


class StateChoices:
    """The choices that are left."""

    def __init__(self, problem: Problem) -> None:
        from ortools.sat.python import cp_model

        self._problem = problem
        self._solver = cp_model.CpSolver()
        self._model = cp_model.CpModel()
        self._stays: dict[tuple[State, str], cp_model.IntVar] = {}
        for state in problem.graph.states:
            names = [memory.name for memory in memories_of_state(problem, state)]
            for name in names:
                self._stays[state, name] = self._model.new_bool_var(f"{state.old} in {name}")
            self._model.add_at_most_one(self._stays[state, name] for name in names)
        self._arena = self._model.new_int_var(0, sum(one.capacity_bytes for one in problem.memories), "arena")
        self._states_and_operands_have_room()
        self._model.minimize(self._arena if problem.objective is Objective.PEAK else self._moved_cost())

    def exclude(self, memory_of: Mapping[State, str]) -> None:
        """Exclude one of the choices that are left."""
        self._model.add_bool_or(
            variable.negated() if memory_of.get(state) == name else variable
            for (state, name), variable in self._stays.items()
        )

    def cheapest(self, run: Run) -> Choice | None:
        """Return the choice that is cheapest as far as is known here; None where none is left, or there is no time."""
        if not cp_sat_is_within_reach(run):
            return None
        result = solve_for_result(self._solver, self._model, run, "states", self._chosen)
        return None if result.answer is None else Choice(result.answer, result.lower_bound)

    def _chosen(self) -> Mapping[State, str]:
        return {state: name for (state, name), variable in self._stays.items() if self._solver.boolean_value(variable)}

    def _moved_cost(self) -> cp_model.LinearExprT:
        graph = self._problem.graph
        total = sum(loaded_cost(self._problem, state) for state in graph.states)
        return total - sum(variable * loaded_cost(self._problem, state) for (state, _), variable in self._stays.items())

    def _states_and_operands_have_room(self) -> None:
        """In each scratchpad, states that stay; in the only one, beside the operands of each operator, too."""
        sizes = {state: self._problem.graph.tensor[state.old].size_bytes for state in self._problem.graph.states}
        for memory in self._problem.memories:
            here = [(state, variable) for (state, name), variable in self._stays.items() if name == memory.name]
            held = sum(variable * sizes[state] for state, variable in here)
            self._model.add(held <= memory.capacity_bytes)
        if len(self._problem.memories) > 1:
            return
        indexed = IndexedProblem.of(self._problem)
        for number in range(indexed.operator_count):
            operands = self._operands_apart(indexed, number)
            need = held + sum(operands.values())
            need -= sum(variable * _bytes_of(state, operands) for state, variable in here)
            self._model.add(need <= self._arena)

    def _operands_apart(self, indexed: IndexedProblem, number: int) -> Mapping[str, int]:
        """Return the sizes of an operator's operands that lie within no other, by name."""
        inside = indexed.inside_others(number)
        tensors = (indexed.tensors[one] for one in indexed.operand_lists[number] if one not in inside)
        return {tensor.name: tensor.size_bytes for tensor in tensors}


def _bytes_of(state: State, operands: Mapping[str, int]) -> int:
    return operands.get(state.old, 0) + operands.get(state.new, 0)
