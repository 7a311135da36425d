"""Lower bounds on accesses for the inputs of turns hold for any groups and for random mappings."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import MappingError, Move
from onchip.arch.memory import Operand
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.criteria import Groups, accesses_of_turns, shortest_of
from onchip.model.layer.cost import access_of, layer_cost
from support.longer_nests import random_long_mapping, random_long_problem
from support.random_chains import kind_of
from support.series import series


@pytest.mark.parametrize("seed", range(4))
def test_no_groups_cost_less_than_is_said(seed: int) -> None:
    """Groups have random sizes, some of them 0; costs never fall with size."""
    random, tight = Random(seed), 0
    for number in range(400):
        most, count = random.randint(1, 9), random.choice((1, 3, 6, 400))
        costs = np.array([0.0, *np.cumsum([random.choice((0.0, 0.0, 1.0, 2.5)) for _ in range(most)])])
        least = random.choice((0, most - 1))
        sizes = [random.randint(least, most) for _ in range(count)]
        found = Groups(count + number % 2, most, sum(sizes)).least(costs)
        actual = sum(float(costs[one]) for one in sizes)
        assert found <= actual * (1 + 1e-9)
        tight += 0 < found == actual
    assert tight > 20


@pytest.mark.parametrize("first", series(range(0, 400, 200), 1))
def test_turns_take_no_fewer_accesses_for_inputs_than_is_said(first: int) -> None:
    """Random mappings with padding, strides and units along height and width, against the counts of the cost model."""
    known = tight = 0
    for seed in range(first, first + 200):
        random = Random(seed)
        problem = random_long_problem(random)
        mapping = random_long_mapping(random, problem)
        try:
            cost = layer_cost(problem, mapping)
        except MappingError:
            continue
        way = kind_of(problem, mapping)
        nearest = way.memories(Operand.INPUT)[0]
        access = access_of(problem.accelerator, nearest)
        chain, bits = OperandChain(way, way.at_units, Operand.INPUT), problem.layer.bits(Operand.INPUT)
        found = accesses_of_turns(chain, way.served(nearest), bits, shortest_of(access))
        counted = [
            one.words(access) * access.access_bits / shortest_of(access)
            for one in cost.accesses
            if (one.memory, one.operand, one.move) == (nearest, Operand.INPUT, Move.READ_FOR_BELOW)
        ]
        assert found <= sum(counted) * (1 + 1e-9), str(mapping)
        known, tight = known + (found > 0), tight + (found > 0 and found == pytest.approx(sum(counted)))
    assert known > 20
    assert tight > 10


def test_nothing_is_said_where_units_stand_on_taps() -> None:
    at_taps = 0
    for seed in range(200):
        random = Random(seed)
        problem = random_long_problem(random)
        mapping = random_long_mapping(random, problem)
        if not any(loop.along and loop.dimension in "RS" for loop in mapping.nest):
            continue
        way = kind_of(problem, mapping)
        chain = OperandChain(way, way.at_units, Operand.INPUT)
        assert accesses_of_turns(chain, way.served(way.memories(Operand.INPUT)[0]), 8, 8) == 0.0
        at_taps += 1
    assert at_taps > 5
