"""Divide and conquer, and replanned windows of plans with addresses."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest

import onchip.memory.baselines.divide as divide
from onchip.answer.problem import Count, Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import load_network
from onchip.memory.allocate.residencies import LayoutPlacer, layout_tensors
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.baselines.divide import DivideParams, crossing_bytes, regions
from onchip.memory.decisions import OperatorSchedule, PlannedResidency, compose, schedule_of_moves
from onchip.memory.methods import method_named
from onchip.memory.spill.search import UNLIMITED
from onchip.memory.spill.windows import AddressedPlan, improve_in_placed_windows, layout_operators
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import LayoutOperator, LayoutStay, LayoutTensor, OrderBeam, PlacedPlan, StopToken, WindowChoice
from onchip.search.budget.limits import Limits, Run
from onchip.transform.rewrite.activations import fuse
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_traffic, random_graph
from support.one_order import tight, windowed
from support.series import in_one_test, with_slow

# Divide and conquer: legal, never better than the optimum, with a bound for all orders


def tight_problem(seed: int, operators: int) -> Problem:
    count = Count.ALL if seed % 2 else Count.ACTIVATIONS
    roomy = Problem(random_graph(seed, operators), (Memory("sram", 10_000),), count=count)
    return replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes + seed % 4),))


@pytest.mark.parametrize("seed", with_slow(range(30), {29}.__contains__))
def test_a_divided_plan_is_legal_and_its_bound_holds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divide, "PARAMS", DivideParams(largest_regions=(2, 3)))
    problem = tight_problem(seed, 7)
    result = method_named("divide")(problem, Run())
    best = least_traffic(problem)
    assert result.answer is not None
    assert result.objective_value is not None
    assert best is not None
    assert verify(problem, result.answer).violations == ()
    assert result.lower_bound <= best <= result.objective_value


@pytest.mark.parametrize("seed", range(10))
def test_a_joined_order_is_topological(seed: int) -> None:
    indexed = IndexedProblem.of(tight_problem(seed, 30))
    order = divide.joined_order(indexed, Run(), 5)
    assert sorted(order) == list(range(indexed.operator_count))
    done = 0
    for operator in order:
        assert not indexed.predecessors[operator] & ~done
        done |= 1 << operator


def test_one_region_that_holds_everything_is_the_exact_method() -> None:
    problem = tight_problem(3, 7)
    result = method_named("divide")(problem, Run())
    exact = method_named("exact")(problem, Run())
    assert (result.status, result.objective_value) == (Status.OPTIMAL, exact.objective_value)


@pytest.mark.parametrize("seed", range(10))
def test_regions_cover_all_operators_and_are_bounded(seed: int) -> None:
    indexed = IndexedProblem.of(tight_problem(seed, 30))
    found = regions(indexed, 6)
    assert [operator for region in found for operator in region] == list(range(indexed.operator_count))
    assert max(map(len, found)) <= 6


def test_a_network_is_cut_where_little_crosses() -> None:
    # densenet121 narrows between its blocks: no cut crosses more than the median position does.
    indexed = IndexedProblem.of(Problem(load_network("densenet121"), (Memory("sram", 2**30),)))
    crossing = crossing_bytes(indexed)
    cuts = [region.start for region in regions(indexed, 160)[1:]]
    assert cuts
    assert max(crossing[cut] for cut in cuts) < sorted(crossing)[len(crossing) // 2]


@pytest.mark.slow
def test_amoebanet_at_its_tightest_is_solved_in_parts() -> None:
    roomy = Problem(fuse(load_network("amoebanetd_18_256").with_bits(8)), (Memory("sram", 1),))
    problem = replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes),))
    result = method_named("divide")(problem, Run(Limits(time_limit_seconds=60)))
    assert result.answer is not None
    assert result.objective_value is not None
    assert verify(problem, result.answer).violations == ()
    assert result.lower_bound <= 2_107_392 <= result.objective_value < 12_242_944  # optimum; optimum of the given order


# Replanned windows of a plan with addresses: tensors across their ends keep their offsets, and no cost rises


def indexed_of(seed: int, operators: int) -> IndexedProblem:
    problem = tight(windowed(operators, seed), (1, 4, 64)[seed % 3], seed % 50)
    return IndexedProblem.of(replace(problem, order=Order.FREE))


def placed_answer(indexed: IndexedProblem, width: int = 4) -> tuple[IndexedProblem, OperatorSchedule, tuple[int, ...]]:
    schedule = schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    found = LayoutPlacer(indexed, schedule).place(width, Run())
    assert found is not None
    return indexed, *found


def assert_legal(placed: AddressedPlan) -> None:
    indexed = placed.indexed
    verdict = verify(indexed.problem, compose(indexed, *placed.answer))
    assert verdict.violations == ()
    assert verdict.figures.non_compulsory_cost == placed.cost


@pytest.mark.parametrize("seed", range(9))
def test_the_plan_is_legal_after_every_pass_and_its_cost_never_rises(seed: int) -> None:
    placed = AddressedPlan(*placed_answer(indexed_of(seed, 60)))
    costs = [placed.cost]
    assert_legal(placed)
    for _ in islice(improve_in_placed_windows(placed, Run(Limits(seed=seed))), 8):
        assert_legal(placed)
        costs.append(placed.cost)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


def operand_offsets(placed: AddressedPlan) -> list[tuple[int, dict[int, int]]]:
    """Return for each step the operator and the offsets of its operands."""
    schedule, offsets_bytes = placed.answer
    found = [(operator, dict[int, int]()) for operator in schedule.order]
    for residency, offset in zip(schedule.residencies, offsets_bytes, strict=True):
        for operator, own in found[residency.start : residency.stop]:
            if residency.tensor in placed.indexed.operand_lists[operator]:
                own[residency.tensor] = offset
    return found


@in_one_test("seed", range(12))
def test_windows_change_nothing_outside_and_never_raise_the_cost(seed: int) -> None:
    """Random windows are replanned in sequence; some reach beyond the end."""
    chance = random.Random(seed)
    placed, changed = AddressedPlan(*placed_answer(indexed_of(seed, 50))), 0
    for _ in range(12):
        begin, soon, drawn = chance.randrange(50), chance.choice((1, 8)), chance.randrange(1000)
        stop = begin + chance.randint(1, 20)
        before, cost = operand_offsets(placed), placed.cost
        placed.plan_anew([WindowChoice(begin=begin, stop=stop, soon=soon, seed=drawn)], 8, Run())
        after = operand_offsets(placed)
        assert (before[:begin], before[stop:]) == (after[:begin], after[stop:])
        assert placed.cost <= cost
        assert_legal(placed)
        changed += before != after
    assert changed


@pytest.mark.parametrize(
    ("order", "stays", "what"),
    [
        ([0], [], "not all operators"),
        ([0, 0], [], "stands in the order twice"),
        ([0, 2], [], "an operator is unknown"),
        ([0, 1], [(2, 0, 1)], "a tensor is unknown"),
        ([0, 1], [(0, 0, 1)], "a tensor lies nowhere"),
    ],
)
def test_a_plan_that_is_none_is_refused(order: list[int], stays: list[tuple[int, int, int]], what: str) -> None:
    tensors = [LayoutTensor(size_bytes=5, load_cost=1, store_cost=1)] * 2
    operators = [LayoutOperator(reads=[], writes=[number], predecessors=[]) for number in range(2)]
    made = [LayoutStay(tensor=one, start=start, stop=stop, offset_bytes=0) for one, start, stop in stays]
    with pytest.raises(ValueError, match=what):
        PlacedPlan(tensors, operators, order, made, capacity_bytes=10, alignment_bytes=1)


def found_by_beam(
    indexed: IndexedProblem, width: int, soon: int, seed: int = 0
) -> tuple[int, OperatorSchedule, tuple[int, ...]]:
    """Return the cost, schedule and offsets in bytes that a beam over orders and offsets finds."""
    beam = OrderBeam(
        layout_tensors(indexed),
        [-1] * len(indexed.tensors),
        layout_operators(indexed),
        capacity_bytes=indexed.memory.capacity_bytes,
        alignment_bytes=indexed.memory.alignment_bytes,
    )
    assert beam.run(width, upper_bound=UNLIMITED, ahead=64, soon=soon, seed=seed, stop=StopToken())
    stays = sorted(beam.stays, key=lambda stay: (stay.start, stay.tensor))
    residencies = tuple(PlannedResidency(stay.tensor, stay.start, stay.stop) for stay in stays)
    return beam.cost, OperatorSchedule(tuple(beam.order), residencies), tuple(stay.offset_bytes for stay in stays)


@pytest.mark.parametrize("width", [1, 5, 40])
@pytest.mark.parametrize("seed", range(9))
def test_any_beam_over_orders_gives_a_legal_plan_that_costs_what_it_says(seed: int, width: int) -> None:
    indexed = indexed_of(seed, 40)
    cost, schedule, offsets_bytes = found_by_beam(indexed, width, seed % 3 * 8, seed)
    verdict = verify(indexed.problem, compose(indexed, schedule, offsets_bytes))
    assert verdict.violations == ()
    assert verdict.figures.non_compulsory_cost == cost


@in_one_test("seed", range(12))
def test_no_beam_over_orders_costs_less_than_all_orders_and_addresses_do(seed: int) -> None:
    """The graphs have few operators, and no tensor leaves for free."""
    problem = replace(tight(random_graph(seed, 6), 1, seed % 5), order=Order.FREE)
    least = least_traffic(problem)
    assert least is not None
    assert found_by_beam(IndexedProblem.of(problem), 400, 0)[0] >= least


def beam_of(sizes: list[int], pins: list[int], operators: list[list[int]]) -> OrderBeam:
    """Return a beam over tensors in 10 bytes, each written by its first operator; operators run in the given order."""
    written, made = set[int](), []
    for at, operands in enumerate(operators):
        writes = [one for one in operands if one not in written]
        reads = [one for one in operands if one in written]
        made.append(LayoutOperator(reads=reads, writes=writes, predecessors=range(at)))
        written |= set(operands)
    tensors = [LayoutTensor(size_bytes=size, load_cost=1, store_cost=1) for size in sizes]
    return OrderBeam(tensors, pins, made, capacity_bytes=10, alignment_bytes=1)


def finds(beam: OrderBeam, upper_bound: int = UNLIMITED) -> bool:
    return beam.run(8, upper_bound=upper_bound, ahead=64, soon=8, seed=0, stop=StopToken())


def test_a_pinned_tensor_lies_at_its_pin_though_more_leaves_for_it() -> None:
    beam = beam_of([5, 5, 6], [-1, -1, 2], [[0, 1], [2], [0, 1]])
    assert finds(beam)
    assert {stay.offset_bytes for stay in beam.stays if stay.tensor == 2} == {2}
    assert beam.cost == 4
    assert not finds(beam, upper_bound=4)
    assert finds(beam, upper_bound=5)


def test_pins_that_leave_an_operator_no_place_have_no_plan() -> None:
    assert not finds(beam_of([5, 5], [0, 3], [[0, 1]]))
    assert not finds(beam_of([4, 6], [3, -1], [[0, 1]]))


def test_what_may_run_first_runs_where_that_costs_less() -> None:
    """The second reader of a tensor does not wait for the operator that makes the tensor leave."""
    tensors = [LayoutTensor(size_bytes=size, load_cost=1, store_cost=1) for size in (5, 6)]
    operators = [
        LayoutOperator(reads=[], writes=[0], predecessors=[]),
        LayoutOperator(reads=[], writes=[1], predecessors=[]),
        LayoutOperator(reads=[0], writes=[], predecessors=[0]),
    ]
    beam = OrderBeam(tensors, [-1, -1], operators, capacity_bytes=10, alignment_bytes=1)
    assert finds(beam)
    assert (beam.cost, beam.order.index(2) < beam.order.index(1) or beam.order.index(1) == 0) == (0, True)


@pytest.mark.parametrize(("released", "leaves"), [(0, 0), (1, 1)])
def test_a_released_tensor_leaves_for_a_third_one_and_only_then_costs_its_transfers(released: int, leaves: int) -> None:
    """Both tensors of five bytes are read again, at equal cost, and one has to leave for the third."""
    tensors = [LayoutTensor(size_bytes=5, load_cost=1, store_cost=1) for _ in range(3)]
    lists = [([], [0, 1], [released]), ([], [2], []), ([0], [], []), ([1], [], [])]
    for used, cost in (((0, 1, 2, 3), 2), ((0, 2, 3), 0)):
        operators = [
            LayoutOperator(reads=reads, writes=writes, predecessors=range(max(0, at - 1), at), released=without)
            for at, (reads, writes, without) in enumerate(lists[step] for step in used)
        ]
        beam = OrderBeam(tensors, [-1] * 3, operators, capacity_bytes=10, alignment_bytes=1)
        assert beam.run(1, upper_bound=UNLIMITED, ahead=1, soon=0, seed=0, stop=StopToken())
        assert beam.cost == cost
        stays = [sum(stay.tensor == tensor for stay in beam.stays) for tensor in (0, 1)]
        assert stays == [1 + (cost > 0 and tensor == leaves) for tensor in (0, 1)]


def test_only_operands_are_released() -> None:
    tensors = [LayoutTensor(size_bytes=5, load_cost=1, store_cost=1) for _ in range(2)]
    operator = LayoutOperator(reads=[], writes=[0], predecessors=[], released=[1])
    with pytest.raises(ValueError, match="releases a tensor that it does not use"):
        OrderBeam(tensors, [-1, -1], [operator], capacity_bytes=10, alignment_bytes=1)


@pytest.mark.parametrize(
    ("sizes", "pins", "operators", "what"),
    [
        ([5], [6], [[0]], "a pin is no place"),
        ([5], [], [[0]], "not one pin for each tensor"),
        ([11], [-1], [[0]], "a size is below 1 or above the capacity"),
        ([5], [-1], [[1]], "a tensor is unknown"),
        ([5, 6], [-1, -1], [[0, 1]], "operands do not fit"),
    ],
)
def test_a_problem_of_orders_that_is_none_is_refused(
    sizes: list[int], pins: list[int], operators: list[list[int]], what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        beam_of(sizes, pins, operators)
