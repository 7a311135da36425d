"""A network with state: which of it stays on the chip for life, and the best plan around that.

A method plans without state; here it is asked once for each choice that could be the best, the cheapest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Generic, TypeAlias, TypeVar

from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status, Stop
from onchip.ir.state import State
from onchip.memory.retention.choice import StateChoices
from onchip.memory.spill.scratchpads.kept_states import KeptStates
from onchip.model.capacity.bounds import states_of_least_need
from onchip.model.capacity.states import memories_of_state, states_updated_in_place, with_updates_in_place
from onchip.search.budget.limits import Progress, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach

MOST_CHOICES: Final = 200
SHARE_OF_A_CHOICE: Final = 0.5
"""Of the time that is left."""
T = TypeVar("T")
Solve: TypeAlias = Callable[[Problem, Run], Result[Plan]]


def solve_with_states(problem: Problem, run: Run, solve: Solve, method: str) -> Result[Plan]:
    """Solve by an exact method; its bound is one over all choices of states that stay.

    For the least arena of several scratchpads all are loaded.
    """
    if not problem.graph.states:
        return solve(problem, run)
    if problem.objective is Objective.PEAK and len(problem.memories) > 1:
        return solve_with_states_loaded(problem, run, solve)
    return _StatesSearch(problem, run, solve, KeptStates.plan, method).result()


def least_peak_with_states(
    problem: Problem, run: Run, solve: Callable[[Problem, Run], Result[tuple[int, ...]]]
) -> Result[tuple[int, ...]]:
    """Return the least peak of one scratchpad over all choices of states that stay, and an order that attains it.

    `solve` returns the least peak, and an order of operator indices, of a problem without states.
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


def solve_with_states_loaded(problem: Problem, run: Run, solve: Solve) -> Result[Plan]:
    """Solve by a method that loads and writes back all state, which proves nothing of plans that do not.

    If it finds no plan so, states stay that are updated in place in the least scratchpad in which everything fits.
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
    """Choices, the cheapest first, until none that is left can be better than the best answer.

    `complete` makes an answer of one for the rest.
    """

    def __init__(
        self,
        problem: Problem,
        run: Run,
        solve: Callable[[Problem, Run], Result[T]],
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

    def result(self) -> Result[T]:
        """Try the choices one by one, and say what is known then of all of them."""
        tried = list(self._first_choices())
        for first in tried:
            self._try(first)
        if not self._all_are_tried and not self._is_settled:
            self._try_all_others(tried)
        return self._known()

    def _first_choices(self) -> Iterator[Mapping[State, str]]:
        """All states that may stay, in the only scratchpad; none where there is nothing else to choose."""
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
        for _ in range(MOST_CHOICES):
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
        """Plan around states that stay; a better plan and what is proven of this choice are kept."""
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
        """The run, with half of the time that is left, if that is limited and there are other choices."""
        if self._all_are_tried or not self._run.deadline.is_set:
            return self._run
        return self._run.within(self._run.seconds_left * SHARE_OF_A_CHOICE)

    def _tell(self, kept: KeptStates, progress: Progress) -> None:
        """Tell the listener what has been found for all choices, not for the one that is tried."""
        values = [] if progress.best is None else [kept.objective_value(progress.best)]
        values += [] if self._value is None else [self._value]
        self._run.report(min(values, default=None), self._lower_bound, progress.phase)

    @property
    def _lower_bound(self) -> int:
        """The least that a choice costs, tried or not."""
        tried = [] if self._least_of_tried is None else [self._least_of_tried]
        return min([*tried, *([] if self._all_are_tried else [self._least_of_rest])], default=0)

    @property
    def _is_settled(self) -> bool:
        return self._value is not None and self._value <= self._lower_bound

    def _known(self) -> Result[T]:
        seconds, bound = self._run.seconds, self._lower_bound
        if self._answer is None or self._value is None:
            is_proven = self._all_are_tried and self._least_of_tried is None
            status = Status.INFEASIBLE if is_proven else Status.UNKNOWN
            return Result(status, None, None, bound, seconds, self._method, self._stopped_by)
        if self._is_settled:
            return Result(Status.OPTIMAL, self._answer, self._value, self._value, seconds, self._method)
        return Result(Status.FEASIBLE, self._answer, self._value, bound, seconds, self._method, self._stopped_by)
