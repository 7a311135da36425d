"""Fit in one scratchpad equals fit in the search for offsets over any number of scratchpads."""

from __future__ import annotations

import random

import pytest

from onchip.answer.problem import Count, Problem
from onchip.arch.memory import Memory, Operand
from onchip.model.capacity.bounds import operators_that_do_not_fit, places_of_operands
from onchip.model.lifetimes.indexed import IndexedProblem
from oracles.shared_bytes import random_sharing_graph
from support.series import series


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_what_fits_into_the_only_scratchpad_is_what_the_search_finds_a_place_for(seed: int) -> None:
    chance = random.Random(seed)
    graph = random_sharing_graph(seed, greatest_size=chance.choice((3, 9)))
    holds = chance.choice((tuple(Operand), tuple(Operand), (Operand.INPUT, Operand.OUTPUT), (Operand.INPUT,)))
    memory = Memory("sram", chance.randint(1, 24), chance.choice((1, 2, 4, 5)), holds)
    indexed = IndexedProblem.of(Problem(graph, (memory,), count=chance.choice(tuple(Count))))
    found = [operator for operator in range(indexed.operator_count) if places_of_operands(indexed, operator) is None]
    assert operators_that_do_not_fit(indexed) == tuple(found)
