"""Windows of a plan with addresses planned anew: what crosses their ends lies where it was, and nothing costs more."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from onchip.answer.problem import Order
from onchip.facts.indexed import IndexedProblem
from onchip.native import LayoutBeam, LayoutTensor, LayoutUse, StopToken
from onchip.solve.allocation.layouts import LayoutPlacer
from onchip.solve.joint.placed_windows import AddressedPlan, improve_in_placed_windows
from onchip.solve.run.compose import compose, schedule_of_moves
from onchip.solve.run.limits import Limits, Run
from onchip.solve.spilling.belady import belady_moves
from onchip.verify.verifier import verify
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
        schedule = schedule_of_moves(window.problem, belady_moves(window.problem, range(window.problem.operator_count)))
        found = LayoutPlacer(window.problem, schedule, pins).place(8, Run())
        if found is None:
            continue
        for residency, offset in zip(found[0].residencies, found[1], strict=True):
            assert offset == pins.get(residency.tensor, offset)
        placed.follow(window, *found)
        assert_legal(placed)


def beam_of(sizes: list[int], pins: list[int], steps: list[list[int]], capacity: int = 10) -> LayoutBeam:
    """Tensors that the first operator with them writes; nothing should stay."""
    written = set[int]()
    tensors = [
        LayoutTensor(size_bytes=size, load_cost=1, store_cost=1, pin_bytes=pin)
        for size, pin in zip(sizes, pins, strict=True)
    ]
    uses = []
    for at, operands in enumerate(steps):
        last = [all(one not in later for later in steps[at + 1 :]) for one in operands]
        uses.append(
            [
                LayoutUse(tensor=one, is_written=one not in written, is_wanted=not is_last, is_last=is_last)
                for one, is_last in zip(operands, last, strict=True)
            ]
        )
        written |= set(operands)
    return LayoutBeam(tensors, uses, capacity_bytes=capacity, alignment_bytes=1)


def test_a_pinned_tensor_lies_at_its_pin_though_more_leaves_for_it() -> None:
    beam = beam_of([5, 5, 6], [-1, -1, 2], [[0, 1], [2], [0, 1]])
    assert beam.run(8, 0, StopToken())
    assert {stay.offset_bytes for stay in beam.stays if stay.tensor == 2} == {2}
    assert beam.cost == 4


def test_pins_that_leave_an_operator_no_place_have_no_plan() -> None:
    assert not beam_of([5, 5], [0, 3], [[0, 1]]).run(8, 0, StopToken())
    assert not beam_of([4, 6], [3, -1], [[0, 1]]).run(8, 0, StopToken())


def test_a_pin_beyond_the_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="a pin is no place"):
        beam_of([5], [6], [[0]])
