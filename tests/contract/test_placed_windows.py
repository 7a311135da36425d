"""Windows of a plan with addresses planned anew: what crosses their ends lies where it was, and nothing costs more."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from onchip.answer.problem import Order
from onchip.facts.indexed import IndexedProblem
from onchip.native import LayoutOperator, LayoutTensor, OrderBeam, StopToken
from onchip.solve.allocation.layout_orders import LayoutOrders
from onchip.solve.allocation.layouts import LayoutPlacer
from onchip.solve.joint.placed_windows import AddressedPlan, improve_in_placed_windows
from onchip.solve.joint.search import UNLIMITED
from onchip.solve.run.compose import compose, schedule_of_moves
from onchip.solve.run.limits import Limits, Run
from onchip.solve.spilling.belady import belady_moves
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_traffic, random_graph
from support.one_order import tight, windowed


def indexed_of(seed: int, operators: int) -> IndexedProblem:
    problem = tight(windowed(operators, seed), (1, 4, 64)[seed % 3], seed % 50)
    return IndexedProblem.of(replace(problem, order=Order.FREE))


def placed_plan(indexed: IndexedProblem, width: int = 4) -> AddressedPlan:
    schedule = schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    found = LayoutPlacer(indexed, schedule).place(width, Run())
    assert found is not None
    return AddressedPlan(indexed, *found)


def assert_legal(placed: AddressedPlan) -> None:
    indexed = placed.plan.indexed
    verdict = verify(indexed.problem, compose(indexed, *placed.answer))
    assert verdict.violations == ()
    assert verdict.figures.non_compulsory_cost == placed.plan.cost


@pytest.mark.parametrize("seed", range(9))
def test_the_plan_is_legal_after_every_pass_and_its_cost_never_rises(seed: int) -> None:
    placed = placed_plan(indexed_of(seed, 60))
    costs = [placed.plan.cost]
    assert_legal(placed)
    for _ in islice(improve_in_placed_windows(placed, Run(Limits(seed=seed))), 8):
        assert_legal(placed)
        costs.append(placed.plan.cost)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


@pytest.mark.parametrize("seed", range(9))
def test_what_crosses_an_end_of_a_window_is_where_it_was(seed: int) -> None:
    placed = placed_plan(indexed_of(seed, 40))
    for begin in range(0, 40, 7):
        window = placed.plan.window(begin, begin + 12)
        pins = placed.pins_bytes(window)
        if pins is None:
            continue
        crossing = {number for number, one in enumerate(window.tensors) if one.comes or one.goes}
        assert set(pins) == crossing
        last = window.problem.operator_count - len(window.operators) - 1
        orders = LayoutOrders(window.problem, pins, last)
        found, before = orders.find(16, Run(), UNLIMITED, soon=8), placed.plan.cost
        if found is None:
            continue
        for residency, offset in zip(found[0].residencies, found[1], strict=True):
            assert offset == pins.get(residency.tensor, offset)
        placed.follow(window, *found)
        assert placed.plan.cost - before == orders.cost - window.cost
        assert_legal(placed)


@pytest.mark.parametrize("width", [1, 5, 40])
@pytest.mark.parametrize("seed", range(9))
def test_any_beam_over_orders_gives_a_legal_plan_that_costs_what_it_says(seed: int, width: int) -> None:
    indexed = indexed_of(seed, 40)
    orders = LayoutOrders(indexed, {})
    found = orders.find(width, Run(Limits(seed=seed)), UNLIMITED, soon=seed % 3 * 8)
    assert found is not None
    verdict = verify(indexed.problem, compose(indexed, *found))
    assert verdict.violations == ()
    assert verdict.figures.non_compulsory_cost == orders.cost


@pytest.mark.parametrize("seed", range(12))
def test_no_beam_over_orders_costs_less_than_all_orders_and_addresses_do(seed: int) -> None:
    """Of few operators; what leaves is never free."""
    problem = replace(tight(random_graph(seed, 6), 1, seed % 5), order=Order.FREE)
    orders, least = LayoutOrders(IndexedProblem.of(problem), {}), least_traffic(problem)
    assert orders.find(400, Run(), UNLIMITED, soon=0) is not None
    assert least is not None
    assert orders.cost >= least


def beam_of(sizes: list[int], pins: list[int], operators: list[list[int]]) -> OrderBeam:
    """Tensors in 10 bytes that the first operator with them writes; each operator runs after the one before."""
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
    """Of two readers of one tensor the second does not wait for what makes that tensor leave."""
    tensors = [LayoutTensor(size_bytes=size, load_cost=1, store_cost=1) for size in (5, 6)]
    operators = [
        LayoutOperator(reads=[], writes=[0], predecessors=[]),
        LayoutOperator(reads=[], writes=[1], predecessors=[]),
        LayoutOperator(reads=[0], writes=[], predecessors=[0]),
    ]
    beam = OrderBeam(tensors, [-1, -1], operators, capacity_bytes=10, alignment_bytes=1)
    assert finds(beam)
    assert (beam.cost, beam.order.index(2) < beam.order.index(1) or beam.order.index(1) == 0) == (0, True)


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
