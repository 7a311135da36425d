from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Problem
from onchip.arch.memory import Memory, Operand
from onchip.facts.fitting import places_of_operands
from onchip.facts.indexed import IndexedProblem
from onchip.facts.infeasible_operator import misfit_of
from onchip.ir.graph import Graph
from support.programs import graph, sram
from support.strategies import graphs

NETWORK = graph("x:input:10 w:parameter:30 a:activation:20 y:output:5", f="x w -> a", g="a -> y")
ROLES = st.lists(st.sampled_from(Operand), min_size=1, unique=True).map(tuple)


def problem(*memories: Memory) -> Problem:
    return Problem(NETWORK, memories, count=Count.ALL)


def test_an_operator_that_fits_is_no_misfit() -> None:
    assert misfit_of(problem(*sram(60))) is None


def test_in_one_scratchpad_the_operator_that_needs_most_is_named_with_what_is_missing() -> None:
    misfit = misfit_of(problem(*sram(59)))

    assert misfit is not None
    assert (misfit.operator.name, misfit.need_bytes, misfit.excess_bytes, misfit.oversize) == ("f", 60, 1, None)


def test_a_tensor_too_large_for_all_that_may_hold_it_is_named_with_the_largest_of_these() -> None:
    memories = (
        Memory("small", 8, holds=(Operand.WEIGHT,)),
        Memory("large", 16, holds=(Operand.WEIGHT,)),
        Memory("other", 100, holds=(Operand.INPUT, Operand.OUTPUT)),
    )
    misfit = misfit_of(problem(*memories))

    assert misfit is not None
    assert misfit.oversize is not None
    assert (misfit.oversize.tensor.name, misfit.oversize.operand) == ("w", Operand.WEIGHT)
    assert misfit.oversize.largest == memories[1]
    assert misfit.excess_bytes == misfit.oversize.excess_bytes == 30 - 16


def test_an_operand_that_no_scratchpad_holds_is_too_large_by_all_its_bytes() -> None:
    misfit = misfit_of(problem(Memory("all but weights", 100, holds=(Operand.INPUT, Operand.OUTPUT))))

    assert misfit is not None
    assert misfit.oversize is not None
    assert (misfit.oversize.largest, misfit.oversize.largest_bytes, misfit.excess_bytes) == (None, 0, 30)


def test_operands_that_fit_alone_and_in_sum_but_not_together_exceed_nothing() -> None:
    misfit = misfit_of(problem(Memory("left", 31), Memory("right", 29)))

    assert misfit is not None
    assert (misfit.operator.name, misfit.oversize, misfit.excess_bytes) == ("f", None, 0)
    assert misfit.need_bytes == 60 == misfit.capacity_bytes


@settings(max_examples=100, deadline=None)
@given(graphs(), st.lists(st.tuples(st.integers(1, 60), ROLES), min_size=1, max_size=3))
def test_what_is_said_to_be_too_large_has_no_place_even_alone(
    network: Graph, sizes: list[tuple[int, tuple[Operand, ...]]]
) -> None:
    memories = tuple(Memory(f"m{at}", size, holds=holds) for at, (size, holds) in enumerate(sizes))
    asked = Problem(network, memories, count=Count.ALL)
    indexed = IndexedProblem.of(asked)
    fits = [places_of_operands(indexed, o) is not None for o in range(len(network.operators))]
    misfit = misfit_of(asked)

    assert (misfit is None) == all(fits)
    if misfit is not None:
        assert misfit.excess_bytes >= 0
        alone = [
            tensor.name
            for tensor in misfit.operands
            if not any(
                tensor.size_bytes <= memory.capacity_bytes and asked.operand(misfit.operator, tensor) in memory.holds
                for memory in memories
            )
        ]
        assert (misfit.oversize is None) == (not alone)
        assert misfit.oversize is None or misfit.oversize.tensor.name in alone
        assert misfit.excess_bytes > 0 or (not alone and misfit.need_bytes <= misfit.capacity_bytes)
