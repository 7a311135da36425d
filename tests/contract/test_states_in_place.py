"""M_R, M_P and plans of networks whose states are updated in place are those of exhaustive search."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.result import Status
from onchip.api.plan import plan_problem
from onchip.api.target import budgets_of
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.methods import METHODS
from onchip.model.capacity import bounds
from onchip.model.capacity.bounds import (
    greatest_need,
    greatest_needs,
    infeasible_operator,
    memories_of_state,
    operator_need,
)
from onchip.search.budget.limits import Limits
from oracles.packing import TooLargeError
from oracles.shared_bytes import subsets
from oracles.states import least_arena_with_states, least_traffic_with_states
from support.series import series
from support.updated_states import problem_with_updates


def in_room(problem: Problem, capacity_bytes: int) -> Problem:
    return replace(problem, memories=(replace(problem.memories[0], capacity_bytes=capacity_bytes),))


def least_traffic(problem: Problem, capacity_bytes: int) -> int | None:
    return least_traffic_with_states(in_room(problem, capacity_bytes)) if capacity_bytes else None


def least_peak(problem: Problem) -> int:
    """Return the least peak in bytes by trying every order and every choice of states that stay."""
    operators, kept = problem.graph.operators, [s for s in problem.graph.states if memories_of_state(problem, s)]
    orders = [operators] if problem.order == "given" else [one for one in permutations(operators) if is_order(one)]
    peaks = (peak(problem, order, chosen) for order in orders for chosen in subsets(kept))
    return min(one for one in peaks if one is not None)


def is_order(operators: tuple[Operator, ...]) -> bool:
    """Return True if every operator stands behind all that write its inputs."""
    written = {name for one in operators for name in one.outputs}
    seen = set[str]()
    for one in operators:
        if not (written & set(one.inputs)) <= seen:
            return False
        seen.update(one.outputs)
    return True


def peak(problem: Problem, order: tuple[Operator, ...], kept: tuple[State, ...]) -> int | None:
    """Return the peak of one order with these states kept, None if an old value would be read too late."""
    graph, uses = problem.graph, dict[str, list[int]]()
    for step, operator in enumerate(order):
        for name in (*operator.inputs, *operator.outputs):
            uses.setdefault(name, []).append(step)
    for state in kept:
        if max(uses.get(state.old, [0])) > uses[state.new][0]:
            return None
    names = {name for state in kept for name in (state.old, state.new)}
    always = sum(graph.tensor[state.old].size_bytes for state in kept)
    live = [always] * len(order)
    for name, steps in uses.items():
        for step in range(min(steps), max(steps) + 1) if name not in names else ():
            live[step] += graph.tensor[name].size_bytes
    return max(live)


def m_r_is_exact(seed: int) -> bool | None:
    """Return True if M_R counts a state once; None if the oracle gives up."""
    problem = problem_with_updates(seed)
    needed = greatest_need(problem).need_bytes
    try:
        assert least_traffic(problem, needed) is not None, seed
        assert least_traffic(problem, needed - 1) is None, seed
    except TooLargeError:
        return None
    return needed < max(operator_need(problem, one).need_bytes for one in problem.graph.operators)


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(10), 1))
def test_m_r_is_the_least_capacity_with_a_legal_plan_of_two_thousand_graphs(part: int) -> None:
    assert [m_r_is_exact(seed) for seed in range(200 * part, 200 * (part + 1))].count(True) >= 30


def plans_are_exact(seed: int, capacities: range) -> int:
    """Return the number of capacities compared with exhaustive search."""
    problem, compared = problem_with_updates(seed), 0
    for more in capacities:
        asked = in_room(problem, max(1, greatest_need(problem).need_bytes + more))
        try:
            least, arena = least_traffic_with_states(asked), least_arena_with_states(asked)
        except TooLargeError:
            return compared
        result = plan_problem(asked)
        status = Status.INFEASIBLE if least is None else Status.OPTIMAL
        assert (result.status, result.objective_value) == (status, least), (seed, more)
        assert (infeasible_operator(asked) is None) is (least is not None), (seed, more)
        result = plan_problem(replace(asked, objective=Objective.PEAK))
        status = Status.INFEASIBLE if arena is None else Status.OPTIMAL
        assert (result.status, result.objective_value) == (status, arena), (seed, more)
        compared += 1
    return compared


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(10), 1))
def test_plans_at_all_capacities_are_those_of_exhaustive_search(part: int) -> None:
    assert sum(plans_are_exact(seed, range(-8, 4)) for seed in range(20 * part, 20 * (part + 1))) >= 150


def m_p_is_exact(seed: int) -> bool:
    """Return True if a state that stays lowers M_P; fail if M_P is not that of exhaustive search."""
    problem = replace(
        problem_with_updates(seed), memories=(replace(problem_with_updates(seed).memories[0], alignment_bytes=1),)
    )
    found, least = budgets_of(problem, Limits()), least_peak(problem)
    assert found.min_peak_bytes == least, seed
    assert found.required_bytes <= least
    loaded = replace(problem, graph=replace(problem.graph, states=()))
    return least < (budgets_of(loaded, Limits()).min_peak_bytes or 0)


def test_m_p_is_the_least_peak_over_orders_and_states_that_stay() -> None:
    assert [m_p_is_exact(seed) for seed in range(30)].count(True) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(5), 1))
def test_m_p_is_the_least_peak_of_a_thousand_graphs(part: int) -> None:
    assert [m_p_is_exact(seed) for seed in range(200 * part, 200 * (part + 1))].count(True) >= 10


def test_one_operator_may_update_many_states() -> None:
    """Half of the forty states stay: more would leave too few bytes for the other operator."""
    count, size = 40, 10
    olds = [Tensor(f"old{at}", size, Role.INPUT) for at in range(count)]
    news = [Tensor(f"new{at}", size, Role.OUTPUT) for at in range(count)]
    other = (Tensor("x", 200, Role.INPUT), Tensor("y", 200, Role.OUTPUT))
    operators = (
        Operator("update", "Any", tuple(one.name for one in olds), tuple(one.name for one in news)),
        Operator("other", "Any", ("x",), ("y",)),
    )
    states = tuple(State(old.name, new.name, in_place=True) for old, new in zip(olds, news, strict=True))
    problem = Problem(Graph("many", (*olds, *news, *other), operators, states), problem_with_updates(0).memories)
    assert [(one.operator.name, one.need_bytes) for one in greatest_needs(problem)] == [("update", 600), ("other", 600)]


def test_every_method_updates_states_in_place_where_nothing_else_fits() -> None:
    tensors = [Tensor("old", 4, Role.INPUT), Tensor("new", 4, Role.OUTPUT), Tensor("x", 2, Role.INPUT)]
    tensors += [Tensor("t", 2, Role.ACTIVATION), Tensor("y", 2, Role.OUTPUT)]
    first, last = Operator("first", "Any", ("x",), ("t",)), Operator("last", "Any", ("t",), ("y",))
    update = Operator("update", "Any", ("old", "t"), ("new",))
    graph = Graph("updates", tuple(tensors), (first, update, last), (State("old", "new", in_place=True),))
    problem = Problem(graph, (Memory("sram", 8),), order=Order.GIVEN)
    assert greatest_need(problem).need_bytes == 8
    for name, method in METHODS.items():
        if method.supports(problem) and name != "paper":  # its formulation has no operator that writes only a state
            assert plan_problem(problem, name, Limits(time_limit_seconds=5)).objective_value is not None, name
    assert plan_problem(problem, "paper").status is Status.UNKNOWN


@pytest.mark.parametrize("name", ["belady", "greedy"])
def test_methods_that_load_state_find_plans_at_m_r(name: str) -> None:
    found = 0
    for seed in range(30):
        problem = replace(problem_with_updates(seed), order=Order.GIVEN)
        result = plan_problem(in_room(problem, greatest_need(problem).need_bytes), name)
        assert result.status in (Status.FEASIBLE, Status.OPTIMAL, Status.UNKNOWN)
        found += result.objective_value is not None
    assert found > 25


def test_m_r_of_a_search_cut_short_is_an_upper_bound_and_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [problem_with_updates(seed) for seed in range(40)]
    exact = [greatest_need(problem) for problem in problems]
    assert all(need.is_proven for need in exact)
    monkeypatch.setattr(bounds, "MOST_VISITS_FOR_M_R", 1)
    larger = 0
    for problem, need in zip(problems, exact, strict=True):
        short = greatest_need(problem)
        assert short.need_bytes == need.need_bytes if short.is_proven else short.need_bytes >= need.need_bytes
        larger += short.need_bytes > need.need_bytes
        assert infeasible_operator(in_room(problem, need.need_bytes)) is None
    assert larger > 0
