"""Networks with state: states that stay on the chip for the whole inference, and the best plan around them.

A method plans a network without state. It runs once for each choice of resident states that could be the best, the
cheapest first by a CP-SAT model; choices tried are excluded, so the model's value bounds all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.memory import Memory
from onchip.ir.graph import State
from onchip.memory.effort import STEP
from onchip.model.capacity.bounds import (
    StateLayout,
    compulsory_cost,
    loaded_cost,
    memories_of_state,
    order_of_kept_states,
    states_of_least_need,
    states_updated_in_place,
    with_updates_in_place,
    without_pairs_of_states,
)
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Progress, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True)
class Choice:
    """States that stay in a scratchpad (by name), and a lower bound on this choice and all others left."""

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
        """Return the choice with the lowest bound; None if no choice or no time is left."""
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
        """Require that resident states fit each scratchpad; a single one, with the operands of each operator."""
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


@dataclass(frozen=True)
class KeptStates:
    """A problem, and which of its states stay in which scratchpad (by name); all others are loaded and written."""

    problem: Problem
    memory_of: Mapping[State, str]

    @cached_property
    def moved_cost(self) -> int:
        """Cost of loading and writing back the other states."""
        return sum(loaded_cost(self.problem, one) for one in self.problem.graph.states if one not in self.memory_of)

    def objective_value(self, value_of_rest: int) -> int:
        """Return the objective value, or bound, of the whole from that of the other operators."""
        if self.problem.objective is not Objective.PEAK:
            return self.moved_cost + self._dearer_cost + value_of_rest
        if not self.memory_of:
            return value_of_rest
        return self._layout_around(value_of_rest).arena_bytes(self._sizes(self.problem.memories[0]))

    @cached_property
    def _dearer_cost(self) -> int:
        """Additional cost of compulsory transfers if states fill the cheapest scratchpads."""
        if self.rest is None:
            return 0
        return compulsory_cost(self.rest) - compulsory_cost(replace(self.rest, memories=self.problem.memories))

    @cached_property
    def rest(self) -> Problem | None:
        """The problem without the states that stay; None if no capacity or no order is left for it.

        If states fill all scratchpads, no other tensor may be planned; the scratchpads then keep their size, unused.
        """
        graph, ordered = self.problem.graph, order_of_kept_states(self.problem, self.memory_of)
        layouts = [(memory, self._layouts[memory.name]) for memory in self.problem.memories]
        if any(layout.rest_bytes < 0 for _, layout in layouts) or not ordered:
            return None
        memories = tuple(
            replace(memory, capacity_bytes=layout.rest_bytes) for memory, layout in layouts if layout.rest_bytes
        )
        if not memories:
            names = {name for state in self.memory_of for name in (state.old, state.new)}
            operands = (tensor.name for operator in ordered for tensor in self.problem.operands(operator))
            if not names.issuperset(operands):
                return None
            memories = self.problem.memories
        names = {memory.name for memory in memories}
        links = tuple(link for link in self.problem.transfers.links if names.issuperset(link))
        operators = tuple(without_pairs_of_states(operator, self.memory_of) for operator in ordered)
        return replace(
            self.problem,
            graph=replace(graph, operators=operators, states=()),
            memories=memories,
            transfers=replace(self.problem.transfers, links=links),
            settled_states=tuple(self.memory_of),
        )

    def plan(self, rest: Plan) -> Plan:
        """Return a plan of the rest with the states that stay put back."""
        layouts = self._layouts
        if self.problem.objective is Objective.PEAK and self.memory_of:
            layouts = {self.problem.memories[0].name: self._layout_around(self._arena_bytes(rest))}
        return Plan(self.problem.memories, tuple(self._instructions(rest, layouts)))

    def _instructions(self, rest: Plan, layouts: Mapping[str, StateLayout]) -> Iterator[Instruction]:
        """Yield the program with resident states; the next value of a state takes its place when it is written."""
        graph = self.problem.graph
        offsets = {state: layouts[name].offsets_bytes[state.old] for state, name in self.memory_of.items()}
        for state, memory in self.memory_of.items():
            yield Allocate(state.old, memory, offsets[state], is_state=True)
        written_by: dict[str, list[State]] = {}
        for state in self.memory_of:
            written_by.setdefault(graph.producer[state.new].name, []).append(state)
        for instruction in rest.instructions:
            match instruction:
                case Allocate(tensor, memory, offset):
                    yield Allocate(tensor, memory, offset + layouts[memory].start_bytes)
                case Compute(name):
                    states = written_by.get(name, ())
                    read = [state for state in states if state.old in graph.operator[name].inputs]
                    for state in states:
                        if state not in read:
                            yield Free(state.old, self.memory_of[state])
                        yield Allocate(state.new, self.memory_of[state], offsets[state])
                    yield instruction
                    yield from (Free(state.old, self.memory_of[state]) for state in read)
                case Copy() | Free():
                    yield instruction

    @cached_property
    def _layouts(self) -> Mapping[str, StateLayout]:
        return {memory.name: StateLayout.of(self._sizes(memory), memory) for memory in self.problem.memories}

    def _layout_around(self, rest_bytes: int) -> StateLayout:
        memory = self.problem.memories[0]
        return StateLayout.of_least_arena(self._sizes(memory), memory.alignment_bytes, rest_bytes)

    def _arena_bytes(self, rest: Plan) -> int:
        graph = self.problem.graph
        places = (one for one in rest.instructions if isinstance(one, Allocate))
        return max((one.offset_bytes + graph.tensor[one.tensor].size_bytes for one in places), default=0)

    def _sizes(self, memory: Memory) -> dict[str, int]:
        tensor = self.problem.graph.tensor
        return {
            state.old: tensor[state.old].size_bytes for state, name in self.memory_of.items() if name == memory.name
        }


T = TypeVar("T")
Solve: TypeAlias = Callable[[Problem, Run], SearchResult[Plan]]


def solve_with_states(problem: Problem, run: Run, solve: Solve, method: str) -> SearchResult[Plan]:
    """Solve by an exact method; its bound holds for all choices of states that stay.

    For the minimum arena of several scratchpads, all states are loaded.
    """
    if not problem.graph.states:
        return solve(problem, run)
    if problem.objective is Objective.PEAK and len(problem.memories) > 1:
        return solve_with_states_loaded(problem, run, solve)
    return _StatesSearch(problem, run, solve, KeptStates.plan, method).result()


def least_peak_with_states(
    problem: Problem, run: Run, solve: Callable[[Problem, Run], SearchResult[tuple[int, ...]]]
) -> SearchResult[tuple[int, ...]]:
    """Return the minimum peak of one scratchpad over all choices of states that stay, and an order that attains it.

    `solve` returns the minimum peak, and an order of operator indices, of a problem without states.
    """
    if not problem.graph.states:
        return solve(problem, run)
    loaded = solve(replace(problem, graph=replace(problem.graph, states=())), run)
    updated = states_updated_in_place(problem)
    if not updated:
        return loaded
    relaxed = solve(with_updates_in_place(problem), run)
    if loaded.objective_value is not None and loaded.objective_value <= relaxed.lower_bound:
        return replace(loaded, status=Status.OPTIMAL, lower_bound=loaded.objective_value, stopped_by=Stop.COMPLETED)
    asked = replace(problem, objective=Objective.PEAK, graph=replace(problem.graph, states=updated))
    found = _StatesSearch(asked, run, solve, _order_in_graph, loaded.method).result()
    values = [one.objective_value for one in (loaded, found) if one.objective_value is not None]
    bound = max(found.lower_bound, relaxed.lower_bound)
    best = loaded if values and loaded.objective_value == min(values) else found
    if best.objective_value is not None and best.objective_value <= bound:
        return replace(best, status=Status.OPTIMAL, lower_bound=best.objective_value, stopped_by=Stop.COMPLETED)
    return replace(best, status=Status.FEASIBLE, lower_bound=bound, stopped_by=found.stopped_by)


def _order_in_graph(kept: KeptStates, order: tuple[int, ...]) -> tuple[int, ...]:
    """Return an order of the rest's operators as indices of the whole graph."""
    assert kept.rest is not None
    number = {operator.name: index for index, operator in enumerate(kept.problem.graph.operators)}
    return tuple(number[kept.rest.graph.operators[index].name] for index in order)


def solve_with_states_loaded(problem: Problem, run: Run, solve: Solve) -> SearchResult[Plan]:
    """Solve by a method that loads and writes back all states; its bound does not hold for other plans.

    If it finds no plan, states that are updated in place stay in the smallest scratchpad in which everything fits.
    """
    if not problem.graph.states:
        return solve(problem, run)
    result = None
    for choice in _choices_of_loaded(problem):
        kept = KeptStates(problem, choice)
        if kept.rest is None:
            continue
        result = solve(kept.rest, run)
        if result.answer is not None and result.objective_value is not None:
            value = kept.objective_value(result.objective_value)
            plan = kept.plan(result.answer) if choice else result.answer
            status = Status.FEASIBLE if value else result.status
            return replace(result, status=status, answer=plan, objective_value=value, lower_bound=0)
    assert result is not None  # all states can be loaded
    return replace(result, status=Status.UNKNOWN, lower_bound=0)


def _choices_of_loaded(problem: Problem) -> Iterator[Mapping[State, str]]:
    """Yield no state, then the states that are worth their bytes in the neediest steps."""
    yield {}
    states = states_of_least_need(problem) if len(problem.memories) == 1 else states_updated_in_place(problem)
    if states:
        yield {state: memories_of_state(problem, state)[0].name for state in states}


class _StatesSearch(Generic[T]):
    """Tries choices, the cheapest first, until no other choice can improve the best answer.

    `complete` turns an answer for the other operators into one for the whole.
    """

    def __init__(
        self,
        problem: Problem,
        run: Run,
        solve: Callable[[Problem, Run], SearchResult[T]],
        complete: Callable[[KeptStates, T], T],
        method: str,
    ) -> None:
        self._problem = problem
        self._run = run
        self._solve = solve
        self._complete = complete
        self._answer: T | None = None
        self._value: int | None = None
        self._method = method
        self._least_of_tried: int | None = None
        self._least_of_rest = 0
        self._all_are_tried = False
        self._stopped_by = Stop.COMPLETED

    def result(self) -> SearchResult[T]:
        """Try the choices one by one, and return the combined result."""
        tried = list(self._first_choices())
        for first in tried:
            self._try(first)
        if not self._all_are_tried and not self._is_settled:
            self._try_all_others(tried)
        return self._known()

    def _first_choices(self) -> Iterator[Mapping[State, str]]:
        """Yield the choice of all states that may stay, if one scratchpad exists; an empty choice if none may stay."""
        places = {state: memories_of_state(self._problem, state) for state in self._problem.graph.states}
        may_stay = {state: memories[0].name for state, memories in places.items() if memories}
        if not may_stay:
            self._all_are_tried = True
            yield {}
        elif len(self._problem.memories) == 1:
            yield may_stay

    def _try_all_others(self, tried: list[Mapping[State, str]]) -> None:
        if not cp_sat_is_within_reach(self._run):
            self._stopped_by = self._run.stop or Stop.TIME_LIMIT
            return
        choices = StateChoices(self._problem)
        for one in tried:
            choices.exclude(one)
        for _ in range(STEP.state_choices):
            choice = choices.cheapest(self._run)
            if choice is None:
                self._all_are_tried = self._run.stop is None
                self._stopped_by = self._run.stop or Stop.COMPLETED
                return
            self._least_of_rest = choice.lower_bound
            if self._is_settled:
                return
            self._try(choice.memory_of)
            choices.exclude(choice.memory_of)
        self._stopped_by = Stop.NODE_LIMIT

    def _try(self, memory_of: Mapping[State, str]) -> None:
        """Plan around states that stay; keep a better plan and the bound of this choice."""
        kept = KeptStates(self._problem, memory_of)
        if (rest := kept.rest) is None:
            return
        result = self._solve(rest, replace(self._part_of_the_run(), listener=lambda one: self._tell(kept, one)))
        if result.status is Status.INFEASIBLE:
            return
        bound = kept.objective_value(result.lower_bound)
        self._least_of_tried = bound if self._least_of_tried is None else min(bound, self._least_of_tried)
        self._stopped_by = result.stopped_by
        if result.answer is None or result.objective_value is None:
            return
        value = kept.objective_value(result.objective_value)
        if self._value is None or value < self._value:
            self._answer, self._value = self._complete(kept, result.answer), value

    def _part_of_the_run(self) -> Run:
        """Return the run with half of the time left, if it is limited and other choices remain."""
        if self._all_are_tried or not self._run.deadline.is_set:
            return self._run
        return self._run.within(self._run.seconds_left / 2)

    def _tell(self, kept: KeptStates, progress: Progress) -> None:
        """Report the best value of all choices."""
        values = [] if progress.best is None else [kept.objective_value(progress.best)]
        values += [] if self._value is None else [self._value]
        self._run.report(min(values, default=None), self._lower_bound, progress.phase)

    @property
    def _lower_bound(self) -> int:
        """The lower bound over all choices, tried or not."""
        tried = [] if self._least_of_tried is None else [self._least_of_tried]
        return min([*tried, *([] if self._all_are_tried else [self._least_of_rest])], default=0)

    @property
    def _is_settled(self) -> bool:
        return self._value is not None and self._value <= self._lower_bound

    def _known(self) -> SearchResult[T]:
        seconds, bound = self._run.seconds, self._lower_bound
        if self._answer is None or self._value is None:
            is_proven = self._all_are_tried and self._least_of_tried is None
            status = Status.INFEASIBLE if is_proven else Status.UNKNOWN
            return SearchResult(status, None, None, bound, seconds, self._method, self._stopped_by)
        if self._is_settled:
            return SearchResult(Status.OPTIMAL, self._answer, self._value, self._value, seconds, self._method)
        return SearchResult(Status.FEASIBLE, self._answer, self._value, bound, seconds, self._method, self._stopped_by)
