"""The engines' test of legality agrees with the verifier of mappings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.model.layer.limits import misfit
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Rule
from refusals.test_mapping_refusals import MACHINE, TABLE
from support.longer_nests import random_long_mapping, random_long_problem
from support.series import series


@pytest.mark.parametrize("name", TABLE)
def test_each_rule_of_the_verifier_is_a_misfit(name: str) -> None:
    row = TABLE[name]
    assert misfit(LayerProblem(row.layer, MACHINE), row.legal, may_pad=row.may_pad) is None
    problem = LayerProblem(row.illegal_layer or row.layer, MACHINE)
    assert misfit(problem, row.illegal, may_pad=row.may_pad) is not None
    is_of_room = row.rule is Rule.CAPACITY_EXCEEDED
    assert (misfit(problem, row.illegal, may_pad=row.may_pad, counts_room=False) is None) is is_of_room


@pytest.mark.parametrize("first", series(range(0, 1200, 400), 1))
def test_random_mappings_misfit_exactly_if_the_verifier_refuses_them(first: int) -> None:
    """Some mappings lack a loop, a ragged loop or a memory; tiles may use a random part of each memory."""
    found = Counter[bool]()
    for seed in range(first, first + 400):
        random = Random(seed)
        problem = random_long_problem(random)
        rooms = ((level.memory.name, level.memory.capacity_bytes) for level in problem.levels)
        problem = replace(problem, room_bytes={name: min(room, random.randint(0, 200)) for name, room in rooms})
        mapping = _changed(random, random_long_mapping(random, problem))
        for may_pad in (False, True):
            is_legal = not verify_mapping(problem, mapping, may_pad=may_pad)
            assert (misfit(problem, mapping, may_pad=may_pad) is None) is is_legal, (seed, str(mapping))
            found[is_legal] += 1
    assert min(found[True], found[False]) > 50


def _changed(random: Random, mapping: LayerMapping) -> LayerMapping:
    change = random.choice(("nothing", "nothing", "shorter", "ragged", "input"))
    try:
        match change:
            case "shorter":
                return replace(mapping, nest=mapping.nest[:-1])
            case "ragged":
                return replace(mapping, ragged=mapping.ragged[1:])
            case "input":
                return replace(mapping, input=mapping.input[1:])
    except MappingError:
        pass
    return mapping
