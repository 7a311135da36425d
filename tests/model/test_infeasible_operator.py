from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Problem
from onchip.arch.memory import Memory, Operand
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import infeasible_operator, places_of_operands
from onchip.model.lifetimes.indexed import IndexedProblem
from support.programs import graph, sram
from support.strategies import graphs

NETWORK = graph("x:input:10 w:parameter:30 a:activation:20 y:output:5", f="x w -> a", g="a -> y")
ROLES = st.lists(st.sampled_from(Operand), min_size=1, unique=True).map(tuple)


def problem(*memories: Memory) -> Problem:
    return Problem(NETWORK, memories, count=Count.ALL)


def test_an_operator_that_fits_is_no_misfit() -> None:
    assert infeasible_operator(problem(*sram(60))) is None


def test_in_one_scratchpad_the_operator_that_needs_most_is_named_with_what_is_missing() -> None:
    infeasible = infeasible_operator(problem(*sram(59)))

    assert infeasible is not None
    assert (infeasible.operator.name, infeasible.need_bytes) == ("f", 60)
    assert (infeasible.excess_bytes, infeasible.oversize) == (1, None)


def test_a_tensor_too_large_for_all_that_may_hold_it_is_named_with_the_largest_of_these() -> None:
    memories = (
        Memory("small", 8, holds=(Operand.WEIGHT,)),
        Memory("large", 16, holds=(Operand.WEIGHT,)),
        Memory("other", 100, holds=(Operand.INPUT, Operand.OUTPUT)),
    )
    infeasible = infeasible_operator(problem(*memories))

    assert infeasible is not None
    assert infeasible.oversize is not None
    assert (infeasible.oversize.tensor.name, infeasible.oversize.operand) == ("w", Operand.WEIGHT)
    assert infeasible.oversize.largest == memories[1]
    assert infeasible.excess_bytes == infeasible.oversize.excess_bytes == 30 - 16


def test_an_operand_that_no_scratchpad_holds_is_too_large_by_all_its_bytes() -> None:
    infeasible = infeasible_operator(problem(Memory("all but weights", 100, holds=(Operand.INPUT, Operand.OUTPUT))))

    assert infeasible is not None
    assert infeasible.oversize is not None
    assert (infeasible.oversize.largest, infeasible.oversize.largest_bytes, infeasible.excess_bytes) == (None, 0, 30)


def test_operands_that_fit_alone_and_in_sum_but_not_together_exceed_nothing() -> None:
    infeasible = infeasible_operator(problem(Memory("left", 31), Memory("right", 29)))

    assert infeasible is not None
    assert (infeasible.operator.name, infeasible.oversize, infeasible.excess_bytes) == ("f", None, 0)
    assert infeasible.need_bytes == 60 == infeasible.capacity_bytes


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(graphs(), st.lists(st.tuples(st.integers(1, 60), ROLES), min_size=1, max_size=3))
def test_what_is_said_to_be_too_large_has_no_place_even_alone(
    network: Graph, sizes: list[tuple[int, tuple[Operand, ...]]]
) -> None:
    memories = tuple(Memory(f"m{at}", size, holds=holds) for at, (size, holds) in enumerate(sizes))
    asked = Problem(network, memories, count=Count.ALL)
    indexed = IndexedProblem.of(asked)
    fits = [places_of_operands(indexed, o) is not None for o in range(len(network.operators))]
    infeasible = infeasible_operator(asked)

    assert (infeasible is None) == all(fits)
    if infeasible is not None:
        assert infeasible.excess_bytes >= 0
        alone = [
            tensor.name
            for tensor in infeasible.operands
            if not any(
                tensor.size_bytes <= memory.capacity_bytes
                and asked.operand(infeasible.operator, tensor) in memory.holds
                for memory in memories
            )
        ]
        assert (infeasible.oversize is None) == (not alone)
        assert infeasible.oversize is None or infeasible.oversize.tensor.name in alone
        assert infeasible.excess_bytes > 0 or (not alone and infeasible.need_bytes <= infeasible.capacity_bytes)
