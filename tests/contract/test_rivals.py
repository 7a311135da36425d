"""Baselines: legal plans, never better than the optimum; and repair of schedules that do not pack."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations, product

import pytest

from onchip.answer.document import Claim
from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.problem import Count, Objective, Order, Placement, Problem, Rate, Transfers
from onchip.answer.result import Status, Stop
from onchip.api.target import roomy_problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.errors import UsageError
from onchip.formats.own.graph_json import load_network
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.allocate.pack import order_by_size, pack, pack_schedule, place_by_size
from onchip.memory.allocate.repair import place_or_cut, place_or_cut_by_time
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.baselines.belady import Eviction, cheapest_eviction
from onchip.memory.baselines.pinned import WEIGHTS, Pins, by_rank, pin_where_it_fits_best
from onchip.memory.decisions import OperatorSchedule, compose, non_compulsory_cost, schedule_of_moves
from onchip.memory.methods import method_named
from onchip.memory.spill.exact import solve_exactly
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.capacity.bounds import greatest_need, operators_that_do_not_fit, places_of_operands
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.search.budget.limits import Limits, Run
from onchip.transform.rewrite.activations import fuse
from onchip.verify.packing import verify_packing
from onchip.verify.verifier import verify
from oracles.one_scratchpad import long_lived_graph, random_graph
from support.series import in_one_test, series

# Belady and the greedy eviction: legal plans, never better than the optimum of their order


RIVALS = ("belady", "greedy")


def tight_problem(seed: int, order: Order, operators: int) -> Problem:
    alignment = (1, 1, 4)[seed % 3]
    count = Count.ALL if seed % 2 else Count.ACTIVATIONS
    roomy = Problem(random_graph(seed, operators), (Memory("sram", 10_000, alignment),), order=order, count=count)
    return replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes + seed % 4, alignment),))


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("seed", range(6))
def test_a_rival_is_legal_on_a_larger_network(seed: int, rival: str) -> None:
    problem = tight_problem(seed, Order.GIVEN, 60)
    result = method_named(rival)(problem, Run())
    assert result.answer is not None
    assert verify(problem, result.answer).violations == ()


def test_greedy_attains_the_optimum_in_bytes_of_densenet_at_its_tightest() -> None:
    roomy = Problem(fuse(load_network("densenet121").with_bits(8)), (Memory("sram", 1),), order=Order.GIVEN)
    problem = replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes),))
    result = method_named("greedy")(problem, Run())
    assert result.answer is not None
    assert verify(problem, result.answer).violations == ()
    assert result.objective_value == 1_204_224  # the optimum of the given order


@pytest.mark.parametrize("seed", range(30))
def test_the_cheapest_eviction_is_the_least_of_all_sets(seed: int) -> None:
    problem = tight_problem(seed, Order.GIVEN, 6)
    indexed = IndexedProblem.of(problem)
    room = indexed.room
    tensors = range(len(indexed.tensors))
    resident = mask_of(tensors)
    candidates = [Eviction(room.units[t], indexed.load_costs[t], 0, (t,)) for t in tensors if t % 4]
    sets = [
        mask_of(t for one in chosen for t in one.tensors)
        for k in range(len(candidates) + 1)
        for chosen in combinations(candidates, k)
    ]
    fitting = [mask for mask in sets if room.holds(resident & ~mask, room.units_of(resident & ~mask))]
    if not fitting:
        pytest.skip("even what must stay does not fit")
    costs = {mask: sum(indexed.load_costs[t] for t in bits(mask)) for mask in sets}
    chosen = mask_of(cheapest_eviction(indexed, tensors, candidates))
    assert chosen in fitting
    assert costs[chosen] == min(costs[mask] for mask in fitting)


def test_the_larger_buffer_is_placed_first_in_the_tightest_gap() -> None:
    # By size: a (50) at 0, b (30) lives with a alone: 50; c (20) lives with b alone: below b the gap is all of 50.
    problem = PackingProblem((Buffer(0, 2, 50), Buffer(1, 4, 30), Buffer(3, 5, 20)), 100)
    assert order_by_size(problem) == [0, 1, 2]
    assert place_by_size(problem) == (0, 50, 0)


def test_what_lives_throughout_is_placed_first() -> None:
    problem = PackingProblem((Buffer(1, 2, 50), Buffer(0, 3, 10), Buffer(0, 3, 20)), 100)
    assert order_by_size(problem) == [1, 2, 0]
    assert place_by_size(problem) == (30, 0, 10)


def test_offsets_are_aligned() -> None:
    problem = PackingProblem((Buffer(0, 2, 5), Buffer(0, 2, 3), Buffer(1, 2, 1)), 100, 4)
    assert place_by_size(problem) == (0, 8, 12)


# `naive`, `onsram` and `pinning`: legal on any scratchpads, and never better than `exact`


STATIC_RIVALS = ("naive", "onsram")
SCRATCHPAD_RIVALS = (*STATIC_RIVALS, "pinning")
EVERYTHING = tuple(Operand)
HOLDS = (EVERYTHING, EVERYTHING, (Operand.INPUT, Operand.WEIGHT), (Operand.OUTPUT,), (Operand.INPUT, Operand.OUTPUT))
SEEDS = range(60)


def grown(problem: Problem) -> Problem:
    """Return the problem with scratchpads grown in turn until every operator fits; late turns allow all operands."""
    turn = 0
    while operators_that_do_not_fit(IndexedProblem.of(problem)):
        memories = list(problem.memories)
        chosen = memories[turn % len(memories)]
        holds = chosen.holds if turn < 40 else EVERYTHING
        memories[turn % len(memories)] = replace(chosen, capacity_bytes=chosen.capacity_bytes + 2, holds=holds)
        problem, turn = replace(problem, memories=tuple(memories)), turn + 1
    return problem


def seeded_problem(seed: int, operators: int = 8) -> Problem:
    """Return a problem with one to four scratchpads; alignments, operands held and transfer costs differ by seed."""
    chance = random.Random(seed)
    memories = tuple(
        Memory(f"s{i}", chance.randint(1, 12), chance.choice((1, 1, 2, 4)), chance.choice(HOLDS))
        for i in range(1 + seed % 4)
    )
    ways = [way for memory in memories for way in ((DRAM, memory.name), (memory.name, DRAM))]
    rates = {way: Rate(chance.randint(0, 3), ((8 * chance.randint(1, 3), chance.randint(1, 4)),)) for way in ways}
    objective = (Objective.TRAFFIC, Objective.DMA_CYCLES, Objective.DMA_ENERGY)[seed % 3]
    make = long_lived_graph if seed % 5 == 0 else random_graph
    return grown(
        Problem(
            make(seed, operators=operators),
            memories,
            objective,
            Order.GIVEN,
            Count.ALL if seed % 2 else Count.ACTIVATIONS,
            Transfers(rates={} if objective is Objective.TRAFFIC else rates),
        )
    )


def value_of(problem: Problem, method: str) -> int | None:
    """Return the cost of a method's plan after a check by the verifier, or None if the method finds no addresses."""
    result = method_named(method)(problem, Run(Limits(time_limit_seconds=60)))
    if method == "pinning" and result.stopped_by is Stop.NO_PACKING:
        assert result.status is Status.UNKNOWN
        return None
    assert result.answer is not None
    assert result.objective_value is not None
    assert result.status is (Status.OPTIMAL if result.objective_value == 0 else Status.FEASIBLE)
    claim = Claim(method, result.status, problem.objective, result.objective_value, result.lower_bound)
    assert verify(problem, result.answer, claim).violations == ()
    return result.objective_value


@in_one_test("seed", SEEDS)
def test_a_rival_is_legal_and_never_beats_the_optimum(seed: int) -> None:
    problem = seeded_problem(seed)
    exact = solve_exactly(problem, Run())
    assert exact.status is Status.OPTIMAL
    assert exact.objective_value is not None
    for method in SCRATCHPAD_RIVALS:
        value = value_of(problem, method)
        assert value is None or value >= exact.objective_value, method


@pytest.mark.parametrize("method", SCRATCHPAD_RIVALS)
@pytest.mark.parametrize("seed", range(4))
def test_a_rival_plans_an_order_of_least_peak(seed: int, method: str) -> None:
    value_of(replace(seeded_problem(seed), order=Order.MIN_PEAK), method)


@pytest.mark.parametrize("method", SCRATCHPAD_RIVALS)
@pytest.mark.parametrize("seed", series(range(4), 1))
def test_a_rival_is_legal_on_a_larger_network_on_any_scratchpads(seed: int, method: str) -> None:
    value_of(seeded_problem(seed, operators=60), method)


@pytest.mark.parametrize("method", STATIC_RIVALS)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_pinned_for_its_whole_life_is_placed_statically(seed: int, method: str) -> None:
    value_of(replace(seeded_problem(seed, operators=12), placement=Placement.STATIC), method)


def test_pinning_does_not_place_statically() -> None:
    with pytest.raises(UsageError, match="static"):
        method_named("pinning")(replace(seeded_problem(1), placement=Placement.STATIC), Run())


@pytest.mark.parametrize("method", SCRATCHPAD_RIVALS)
def test_an_operator_that_fits_in_all_scratchpads_together_only_is_infeasible(method: str) -> None:
    graph = Graph("g", (Tensor("x", 3, Role.INPUT), Tensor("y", 3, Role.OUTPUT)), (Operator("f", "F", ("x",), ("y",)),))
    problem = Problem(graph, (Memory("a", 3), Memory("b", 2), Memory("c", 2)), order=Order.GIVEN)
    assert method_named(method)(problem, Run()).status is Status.INFEASIBLE


@pytest.mark.parametrize("method", SCRATCHPAD_RIVALS)
def test_without_time_left_a_rival_has_a_legal_plan_or_says_unknown(method: str) -> None:
    problem = seeded_problem(2, operators=30)
    result = method_named(method)(problem, Run(Limits(time_limit_seconds=1e-6)))
    if result.answer is None:
        assert result.status is Status.UNKNOWN
        assert method == "pinning"
    else:
        assert verify(problem, result.answer).violations == ()


@in_one_test("seed", range(0, 60, 3))
def test_naive_moves_every_operand_of_every_operator(seed: int) -> None:
    problem = seeded_problem(seed)  # in bytes
    loads = sum(
        problem.graph.tensor[name].size_bytes
        for operator in problem.graph.operators
        for name in dict.fromkeys(operator.reads)
        if problem.counts(problem.graph.tensor[name])
    )
    read = {name for operator in problem.graph.operators for name in operator.reads}
    written_back = sum(
        tensor.size_bytes
        for tensor in problem.counted_tensors
        if tensor.role is Role.ACTIVATION and tensor.name in read
    )
    first_loads = sum(
        tensor.size_bytes
        for tensor in problem.counted_tensors
        if tensor.role in (Role.INPUT, Role.PARAMETER) and tensor.name in read
    )
    assert value_of(problem, "naive") == loads + written_back - first_loads


def chain_with_two_long_lives() -> Graph:
    """Return a chain that reads `a` (6 bytes) and `b` (4 bytes) again at its end; operators between need 3 bytes."""
    tensors = [
        *(Tensor(name, size, Role.INPUT) for name, size in (("a", 6), ("b", 4), ("c", 2))),
        *(Tensor(name, 1, Role.ACTIVATION) for name in ("p", "q", "r", "s")),
        Tensor("y", 1, Role.OUTPUT),
    ]
    reads = (("a",), ("b",), ("c",), ("a", "c"), ("b", "c"))
    outputs = ("p", "q", "r", "s", "y")
    operators = [Operator(f"op{i}", "Op", reads[i], (outputs[i],)) for i in range(5)]
    return Graph("two long lives", tuple(tensors), tuple(operators))


def test_onsram_pins_each_tensor_in_the_scratchpad_that_it_fills_best() -> None:
    problem = Problem(chain_with_two_long_lives(), (Memory("large", 9), Memory("small", 5)), order=Order.GIVEN)
    pins = Pins(IndexedProblem.of(problem), range(5))
    pin_where_it_fits_best(pins, 1)
    assert (pins.spare_units(0, pins.life(1)), pins.spare_units(1, pins.life(1))) == (9, 1)
    pin_where_it_fits_best(pins, 0)
    assert pins.spare_units(0, pins.life(0)) == 3
    assert value_of(problem, "onsram") == 0


def test_onsram_never_obstructs_an_operator() -> None:
    """A pinned `a` would leave no room in 9 bytes for the operator on `b`; a pinned `b`, none for the last but one."""
    problem = Problem(chain_with_two_long_lives(), (Memory("sram", 9),), order=Order.GIVEN)
    pins = Pins(IndexedProblem.of(problem), range(5))
    pin_where_it_fits_best(pins, 0)
    pin_where_it_fits_best(pins, 1)
    assert pins.spare_units(0, range(5)) == 9
    assert value_of(problem, "onsram") == 10  # c alone is kept


def test_a_weighting_ranks_by_what_is_saved_its_bytes_and_its_life() -> None:
    problem = Problem(chain_with_two_long_lives(), (Memory("sram", 20),), order=Order.GIVEN)
    pins = Pins(IndexedProblem.of(problem), range(5))
    ranked = {(w.saved, w.size, w.lifetime): by_rank(pins, w) for w in WEIGHTS}
    assert ranked[1, -1, -1] == [2, 0, 1]  # saved once, once and twice its bytes, over 4, 4 and 3 steps
    assert ranked[1, 0, 0] == [0, 1, 2]  # 6, 4 and 4 bytes saved
    assert ranked[1, 0, -1] == [0, 2, 1]


@in_one_test("seed", range(40))
def test_places_beside_the_pinned_are_found_exactly_where_there_are_any(seed: int) -> None:
    problem = seeded_problem(seed)
    indexed = IndexedProblem.of(problem)
    chance = random.Random(seed)
    for operator in range(indexed.operator_count):
        idle = [t for t in range(len(indexed.tensors)) if not indexed.operands[operator] >> t & 1]
        pinned_in: list[set[int]] = [set() for _ in indexed.views]
        for tensor in chance.sample(idle, min(2, len(idle))):
            pinned_in[chance.randrange(len(pinned_in))].add(tensor)
        found = places_of_operands(indexed, operator, pinned_in)
        assert (found is not None) == has_places(indexed, operator, pinned_in)


def has_places(indexed: IndexedProblem, operator: int, pinned_in: list[set[int]]) -> bool:
    """Return True if some assignment of the operands to scratchpads fits."""
    operands = indexed.operand_lists[operator]
    written = indexed.writes[operator]
    for memories in product(range(len(indexed.views)), repeat=len(operands)):
        masks = [mask_of(pinned) for pinned in pinned_in]
        for tensor, memory in zip(operands, memories, strict=True):
            taken_in = (indexed.written_in if written >> tensor & 1 else indexed.read_in)[tensor]
            masks[memory] |= 1 << tensor if taken_in >> memory & 1 else 0
        rooms = [view.room for view in indexed.views]
        if sum(mask.bit_count() for mask in masks) == len(operands) + sum(map(len, pinned_in)) and all(
            room.holds(mask, room.units_of(mask)) for room, mask in zip(rooms, masks, strict=True)
        ):
            return True
    return False


# Repair of a schedule that does not pack: it is cut at cheap positions


def optimum_in_bytes(problem: Problem) -> tuple[IndexedProblem, OperatorSchedule, int]:
    indexed = IndexedProblem.of(problem)
    outcome = BestFirstSearch(indexed, Run()).solve()
    assert outcome.moves is not None
    assert outcome.cost is not None
    return indexed, schedule_of_moves(indexed, outcome.moves), outcome.cost


def nasnet() -> Problem:
    graph = fuse(load_network("nasnetalarge").with_bits(8))
    need = greatest_need(roomy_problem(graph, Count.ACTIVATIONS)).need_bytes
    return Problem(graph, (Memory("sram", need),), order=Order.GIVEN)


def test_the_optimum_in_bytes_of_nasnet_at_its_own_order_does_not_pack() -> None:
    indexed, schedule, _ = optimum_in_bytes(nasnet())
    problem = packing_problem(indexed, schedule)

    assert pack(problem, Run()).status is Status.INFEASIBLE
    assert pack_schedule(indexed, schedule, Run()) is None


def test_nasnet_is_mended_for_a_tenth_more() -> None:
    indexed, schedule, cost = optimum_in_bytes(nasnet())

    placed, offsets = place_or_cut(indexed, schedule)

    verdict = verify(indexed.problem, compose(indexed, placed, offsets))
    assert verdict.violations == ()
    assert cost < verdict.figures.non_compulsory == non_compulsory_cost(indexed, placed) <= 1.1 * cost


@in_one_test("seed", range(40))
def test_small_graphs_are_mended_legally_and_never_worse_than_without_search(seed: int) -> None:
    graph = random_graph(seed, operators=12)
    need = greatest_need(roomy_problem(graph, Count.ACTIVATIONS)).need_bytes
    indexed, schedule, cost = optimum_in_bytes(Problem(graph, (Memory("sram", need),), order=Order.GIVEN))

    placed, offsets = place_or_cut(indexed, schedule)
    by_time, _ = place_or_cut_by_time(indexed, schedule)

    assert verify(indexed.problem, compose(indexed, placed, offsets)).violations == ()
    assert verify_packing(packing_problem(indexed, placed), Packing(offsets)) == ()
    assert cost <= non_compulsory_cost(indexed, placed) <= non_compulsory_cost(indexed, by_time)
