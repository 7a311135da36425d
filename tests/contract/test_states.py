"""State tensors: plans, M_R and M_P equal exhaustive search."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.problem import Objective, Order, Problem, Rate, Transfers
from onchip.answer.program import Allocate, Plan
from onchip.answer.result import Status
from onchip.api.check import check_plan
from onchip.api.plan import Request, plan_network, plan_problem
from onchip.api.run import RunValues, run_plan
from onchip.api.target import Target, budgets_of
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.errors import GraphError
from onchip.formats.own.graph_json import graph_from_json, graph_to_json, write_graph
from onchip.formats.own.plan_json import write_plan
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.methods import METHODS
from onchip.model.capacity import bounds
from onchip.model.capacity.bounds import (
    StateLayout,
    greatest_need,
    greatest_needs,
    infeasible_operator,
    memories_of_state,
    operator_need,
)
from onchip.search.budget.limits import Limits
from onchip.transform.rewrite.shared_bytes import with_states
from oracles.packing import TooLargeError
from oracles.shared_bytes import subsets
from oracles.states import least_arena_with_states, least_traffic_with_states, random_graph_with_states
from support.series import series
from support.updated_states import problem_with_updates

# State tensors: the choice of resident and loaded ones equals a brute force over all scratchpad states


AMPLE = 60


def tight_problem(seed: int, alignment: int = 1, objective: Objective = Objective.TRAFFIC) -> Problem:
    chance = random.Random(seed * 3 + 1)
    graph = random_graph_with_states(seed, chance.choice((2, 3, 3)), greatest_size=2)
    order = chance.choice((Order.FREE, Order.GIVEN))
    problem = Problem(graph, (Memory("sram", AMPLE, alignment),), objective, order)
    capacity_bytes = max(1, greatest_need(problem).need_bytes + chance.choice((-2, -1, 0, 0, 1, 2, 3)))
    return replace(problem, memories=(Memory("sram", capacity_bytes, alignment),))


def cache(size_bytes: int, *, in_place: bool = True) -> Graph:
    """Return a graph that updates a cache in place, and an operator that reads it."""
    tensors = (
        Tensor("x", 4, Role.INPUT),
        Tensor("old", size_bytes, Role.INPUT),
        Tensor("new", size_bytes, Role.OUTPUT),
        Tensor("y", 4, Role.OUTPUT),
    )
    operators = (Operator("update", "Any", ("old", "x"), ("new",)), Operator("read", "Any", ("new", "x"), ("y",)))
    return Graph("cache", tensors, operators, (State("old", "new", in_place=in_place),))


def stay(plan: Plan | None) -> list[str]:
    assert plan is not None
    return [one.tensor for one in plan.instructions if isinstance(one, Allocate) and one.is_state]


@pytest.mark.parametrize("seed", series((seed for seed in range(50) if seed != 25), 12))
@pytest.mark.parametrize("alignment", [1, 3])
def test_the_least_traffic_is_that_of_every_state_of_the_scratchpad(seed: int, alignment: int) -> None:
    problem = tight_problem(seed, alignment)
    least = least_traffic_with_states(problem)
    result = plan_problem(problem)
    assert (result.objective_value, result.status) == (least, Status.INFEASIBLE if least is None else Status.OPTIMAL)


@pytest.mark.parametrize("seed", series(range(15), 8))
@pytest.mark.parametrize("alignment", [1, 3])
def test_so_is_the_least_arena(seed: int, alignment: int) -> None:
    problem = tight_problem(seed, alignment, Objective.PEAK)
    least = least_arena_with_states(problem)
    result = plan_problem(problem)
    assert (result.objective_value, result.status) == (least, Status.INFEASIBLE if least is None else Status.OPTIMAL)


def test_what_stays_needs_its_bytes_once_and_moves_nothing() -> None:
    result = plan_problem(Problem(cache(100), (Memory("sram", 108),)))
    assert (result.status, result.objective_value) == (Status.OPTIMAL, 0)
    assert stay(result.answer) == ["old"]


def test_what_does_not_fit_for_life_is_loaded_and_written() -> None:
    other = Tensor("w", 150, Role.INPUT), Tensor("z", 4, Role.OUTPUT)
    graph = cache(100)
    graph = replace(
        graph, tensors=(*graph.tensors, *other), operators=(*graph.operators, Operator("large", "Any", ("w",), ("z",)))
    )
    result = plan_problem(Problem(graph, (Memory("sram", 230),)))
    assert (result.status, result.objective_value) == (Status.OPTIMAL, 200)
    assert stay(result.answer) == []


def test_a_writer_that_reads_the_old_one_has_to_be_able_to_overwrite_it() -> None:
    result = plan_problem(Problem(cache(100, in_place=False), (Memory("sram", 300),)))
    assert result.objective_value == 200


def test_an_output_that_is_also_the_users_is_written() -> None:
    graph = cache(100)
    tensors = tuple(replace(one, aliases=("shown",)) if one.name == "new" else one for one in graph.tensors)
    result = plan_problem(Problem(replace(graph, tensors=tensors), (Memory("sram", 300),)))
    assert result.objective_value == 200


def test_of_several_scratchpads_one_that_holds_it_keeps_it() -> None:
    memories = (Memory("weights", 200, 1, (Operand.WEIGHT,)), Memory("maps", 108))
    result = plan_problem(Problem(cache(100), memories))
    assert (result.status, result.objective_value) == (Status.OPTIMAL, 0)
    places = [one.memory for one in result.answer.instructions if isinstance(one, Allocate)] if result.answer else []
    assert set(places) == {"maps"}


def test_a_state_that_fills_the_cheapest_scratchpad_makes_all_else_dearer() -> None:
    """A state in `cheap` would move all else by `dear`, for 6 beyond the 2 of every plan; in `dear`, for half."""
    tensors = [Tensor(name, 1, Role.INPUT) for name in ("x", "old")] + [Tensor(name, 1, Role.OUTPUT) for name in "yn"]
    operators = (Operator("f", "Any", ("x",), ("y",)), Operator("g", "Any", ("old",), ("n",)))
    graph = Graph("two", tuple(tensors), operators, (State("old", "n", in_place=True),))
    result = plan_problem(in_two(graph, (1, 2), (1, 3), Order.FREE))
    assert (result.status, result.objective_value, stay(result.answer)) == (Status.OPTIMAL, 2, ["old"])


@pytest.mark.parametrize("first", series(range(0, 60, 10), 2))
def test_which_of_two_scratchpads_is_named_first_changes_no_cost(first: int) -> None:
    for seed in range(first, first + 10):
        chance = random.Random(seed)
        graph = random_graph_with_states(seed, chance.choice((2, 3, 3)), greatest_size=2)
        graph = replace(graph, operators=tuple(replace(one, in_place=()) for one in graph.operators))
        room, cycles = (chance.choice((1, 2)), AMPLE), (chance.choice((1, 2)), chance.choice((1, 3)))
        problem = in_two(graph, room, cycles, chance.choice((Order.FREE, Order.GIVEN)))
        results = [plan_problem(replace(problem, memories=each)) for each in (problem.memories, problem.memories[::-1])]
        assert results[0].status is results[1].status is Status.OPTIMAL
        assert results[0].objective_value == results[1].objective_value


def in_two(graph: Graph, room: tuple[int, int], cycles_a_byte: tuple[int, int], order: Order) -> Problem:
    """Return a problem that minimises transfer cycles with the scratchpads `cheap` and `dear`."""
    memories = tuple(map(Memory, ("cheap", "dear"), room))
    rates = {
        way: Rate(0, ((8, cycles),))
        for memory, cycles in zip(memories, cycles_a_byte, strict=True)
        for way in ((DRAM, memory.name), (memory.name, DRAM))
    }
    return Problem(graph, memories, Objective.DMA_CYCLES, order, transfers=Transfers((), rates))


def test_many_equal_states_are_chosen_among() -> None:
    """Five of twelve caches fit: no choice of six does, and the proof does not try all choices."""
    parts = [cache(100) for _ in range(12)]
    tensors = tuple(
        replace(one, name=f"{one.name}{at}") for at, part in enumerate(parts) for one in part.tensors if one.name != "x"
    )
    operators = tuple(
        replace(
            one,
            name=f"{one.name}{at}",
            inputs=tuple(name if name == "x" else f"{name}{at}" for name in one.inputs),
            outputs=tuple(f"{name}{at}" for name in one.outputs),
        )
        for at, part in enumerate(parts)
        for one in part.operators
    )
    states = tuple(State(f"old{at}", f"new{at}", in_place=True) for at in range(12))
    graph = Graph("caches", (Tensor("x", 4, Role.INPUT), *tensors), operators, states)
    result = plan_problem(Problem(graph, (Memory("sram", 5 * 100 + 2 * 100 + 8),)))
    assert (result.status, result.objective_value) == (Status.OPTIMAL, 7 * 200)
    assert len(stay(result.answer)) == 5


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_other_method_loads_and_proves_nothing(method: str) -> None:
    if method == "exact" or Objective.TRAFFIC not in METHODS[method].objectives:
        return
    result = plan_problem(Problem(cache(8), (Memory("sram", 64),), order=METHODS[method].orders[0]), method)
    assert result.status is Status.FEASIBLE
    assert result.lower_bound == 0
    assert result.objective_value is not None
    assert result.objective_value >= 16


def test_a_time_limit_leaves_a_plan_and_a_bound() -> None:
    result = plan_problem(Problem(cache(100), (Memory("sram", 120),)), limits=Limits(time_limit_seconds=0.0))
    assert result.objective_value is None or result.lower_bound <= result.objective_value


def test_a_plan_runs_with_the_state_of_the_inference_before(tmp_path: Path) -> None:
    network, file = tmp_path / "cache.json", tmp_path / "plan.json"
    write_graph(cache(100), network)
    for capacity_bytes in (108, 212):
        outcome = plan_network(Request(str(network), target=Target(sram=capacity_bytes)))
        assert outcome.document is not None
        write_plan(outcome.document, file)
        assert check_plan(file, str(network), Target(), {}).is_legal
        execution = run_plan(file, str(network), RunValues(), inferences=4)
        assert execution.is_right
        assert len(execution.runs) == 4
        assert all(run.loads + run.write_backs == 8 for run in execution.runs)


def test_a_graph_file_says_its_states() -> None:
    graph = cache(8)
    assert graph_from_json(graph_to_json(graph), "cache.json") == graph


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ((State("x", "y"), State("x", "new")), "'x' is in two states"),
        ((State("old", "y"),), "'old' has 8 bytes and 'y' has 4"),
        ((State("new", "y"),), "'new' has the role output"),
        ((State("old", "gone"),), "tensor 'gone' is unknown"),
    ],
)
def test_what_is_no_state_is_refused(states: tuple[State, ...], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        replace(cache(8), states=states)


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_a_layout_leaves_as_much_as_any(seed: int) -> None:
    """Against every way to stack the states below the rest and above it."""
    chance = random.Random(seed)
    alignment = chance.choice((1, 2, 3, 4, 8))
    sizes = {f"s{at}": chance.randint(1, 9) for at in range(chance.randint(0, 3))}
    memory = Memory("sram", chance.randint(30, 60), alignment)
    layout = StateLayout.of(sizes, memory)
    rests = []
    for above in [None, *sizes]:
        below = sum(-(-size // alignment) * alignment for name, size in sizes.items() if name != above)
        top = memory.capacity_bytes
        if above is not None:
            top = (memory.capacity_bytes - sizes[above]) // alignment * alignment
        rests.append(top - below)
    assert layout.rest_bytes == max(rests)
    ends = sorted((offset, offset + sizes[name]) for name, offset in layout.offsets_bytes.items())
    taken = sorted([*ends, (layout.start_bytes, layout.stop_bytes)])
    assert all(stop <= start for (_, stop), (start, _) in pairwise(taken))
    assert all(offset % alignment == 0 for offset, _ in ends)
    assert layout.start_bytes % alignment == 0
    assert max(stop for _, stop in taken) <= memory.capacity_bytes


def test_a_state_may_be_declared_of_a_network_that_knows_of_none(tmp_path: Path) -> None:
    network, file = tmp_path / "cache.json", tmp_path / "plan.json"
    write_graph(replace(cache(100), states=()), network)
    reading = Reading(states={"old": "new"})
    outcome = plan_network(Request(str(network), reading, Target(sram=300)))
    assert outcome.document is not None
    assert outcome.figures is not None
    assert outcome.figures.states_loaded == ("old",)
    write_plan(outcome.document, file)
    assert check_plan(file, str(network), Target(), {}).is_legal


def test_a_name_that_a_view_alone_has_is_no_other_output() -> None:
    graph = replace(cache(100), states=())
    tensors = tuple(replace(one, aliases=("shown",)) if one.name == "new" else one for one in graph.tensors)
    viewed = replace(graph, tensors=tensors)
    memories = (Memory("sram", 300),)
    for listed, stays in ((frozenset({"shown", "y"}), True), (frozenset({"shown", "new", "y"}), False), (None, False)):
        stateful = with_states(viewed, {"old": "shown"}, listed)
        pair = tuple(replace(one, in_place=True) for one in stateful.states)
        result = plan_problem(Problem(replace(stateful, states=pair), memories))
        assert (result.objective_value == 0) is stays


@pytest.mark.parametrize(
    ("declared", "says"), [({"old": "gone"}, "no operator writes 'gone'"), ({"old": "y"}, "'old' has 100 bytes")]
)
def test_what_cannot_be_a_state_is_one_line(tmp_path: Path, declared: dict[str, str], says: str) -> None:
    network = tmp_path / "cache.json"
    write_graph(replace(cache(100), states=()), network)
    with pytest.raises(GraphError, match=says):
        plan_network(Request(str(network), Reading(states=declared), Target(sram=300)))


# M_R, M_P and plans of networks whose states are updated in place are those of exhaustive search


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
