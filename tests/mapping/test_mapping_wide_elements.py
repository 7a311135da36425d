"""Elements wider than a memory: it is left out, by every mapper alike, and the exact one still finds the best."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from cosa.reading import cosa_objective

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.arch.memory import Operand
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import solve_as_loma
from onchip.mapping.baselines.random_search import random_orders, random_tiling
from onchip.mapping.cosa.cosa import VALUE_PER_BIT, solve_as_cosa
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import METHODS
from onchip.mapping.tile_search.uneven import solve_uneven
from onchip.model.accounting.accounting import DEFINES, ZIGZAG, Accounting
from onchip.model.layer.tables import LayerCosts
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import all_mappings, levels_with_room, narrow_toy
from support.nest_tiles import ensure_best
from support.series import series

SEEDS = range(80)
MOST_MAPPINGS = 1500


@pytest.mark.parametrize("seed", series(SEEDS, 20))
def test_it_finds_the_best_of_all_mappings_without_the_memories_that_are_too_narrow(seed: int) -> None:
    ensure_best(narrow_toy(seed), MOST_MAPPINGS)


def left_out(problem: LayerProblem) -> list[Operand]:
    """Return each operand once per memory that holds it but has no room for an element."""
    room = levels_with_room(problem)
    return [
        operand
        for operand in Operand
        if operand in problem.layer.operands
        for level in problem.below_home(operand)
        if operand in level.memory.holds and level not in room[operand]
    ]


@pytest.mark.slow
def test_toys_leave_out_memories_of_every_operand() -> None:
    problems = [narrow_toy(seed) for seed in SEEDS]
    small = [one for one in problems if sum(1 for _ in islice(all_mappings(one), MOST_MAPPINGS + 1)) <= MOST_MAPPINGS]
    found = Counter(operand for one in small for operand in set(left_out(one)))
    assert len(small) >= 50
    assert min(found[operand] for operand in Operand) >= 10, found


def alone(seed: int) -> LayerProblem:
    """Return the toy with the full capacity of every memory and all operands in DRAM."""
    return replace(narrow_toy(seed), homes=Homes(), room_bytes={})


def keeps_all_that_has_room(problem: LayerProblem, mapping: LayerMapping | None) -> bool:
    """Return True if the mapping keeps tiles in every memory with room for an element, and in no other memory."""
    room = levels_with_room(problem)
    return mapping is not None and all(
        [one.memory for one in mapping.kept(operand)] == [level.memory.name for level in room[operand]]
        for operand in problem.layer.operands
    )


@pytest.mark.parametrize("seed", series(range(24), 8))
def test_whatever_a_machine_has_no_room_for_there_is_a_best_mapping_and_none_drawn_is_better(seed: int) -> None:
    problem, random = alone(seed), Random(seed)
    best = METHODS["exact-even"](problem, MappingObjective.ENERGY, Run())
    assert best.status is Status.OPTIMAL
    assert keeps_all_that_has_room(problem, best.answer)
    levels = len(problem.levels) + 1
    drawn = [random_tiling(random, problem).mapping(problem, random_orders(random, levels)) for _ in range(200)]
    assert all(keeps_all_that_has_room(problem, one) for one in drawn)
    energies_pj = LayerCosts(problem).of(drawn).energy_pj
    assert best.lower_bound <= 1000 * min(energies_pj) + 1


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", series(range(24), 8))
def test_loma_and_uneven_leave_out_the_same_memories(seed: int, accounting: Accounting) -> None:
    problem, energy = alone(seed), MappingObjective.ENERGY
    filled = solve_as_loma(problem, energy, Run(), accounting=accounting, has_stored_room=True)
    proven = solve_uneven(problem, energy, Run(), accounting, has_stored_room=True)
    for one in (filled, proven):
        assert one.answer is None or keeps_all_that_has_room(problem, one.answer)
        assert one.answer is None or verify_mapping(problem, one.answer) == ()
    if filled.objective_value is not None:
        assert proven.objective_value is not None
        assert proven.objective_value <= filled.objective_value


SIMBA = load_accelerator("simba-cosa")
WIDE = Layer(k=32, c=32, p=7, q=7, input_bits=32, weight_bits=32, output_bits=32, partial_bits=32)


def test_cosa_leaves_a_register_out_that_has_no_room_for_a_weight() -> None:
    problem = LayerProblem(WIDE, SIMBA)
    result = solve_as_cosa(problem, Run())
    assert result.status is Status.OPTIMAL
    assert keeps_all_that_has_room(problem, result.answer)
    assert result.answer is not None
    assert verify_mapping(problem, result.answer) == ()
    assert [one.memory for one in result.answer.weight] == ["weight_buffer"]
    assert result.objective_value == round(cosa_objective(WIDE, SIMBA, result.answer).total * VALUE_PER_BIT)


@pytest.mark.slow
def test_what_was_proven_when_every_memory_had_to_keep_what_it_holds_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof in which no memory is left out is read again."""
    cache, energy = MappingCache(tmp_path), MappingObjective.ENERGY
    narrow, wide = (LayerProblem(one, SIMBA) for one in (replace(WIDE, k=2, c=2, p=1), Layer(k=2, c=2, q=7)))
    with monkeypatch.context() as before:
        before.setattr("onchip.mapping.methods.cache.leaves_something_out", lambda *_: False)
        for problem in (narrow, wide):
            cache.solve(METHODS["exact"], problem, energy, Run())
    assert cache.known(METHODS["exact"], narrow, energy, Run()) is None
    assert cache.known(METHODS["exact"], wide, energy, Run()) is not None
    found = cache.solve(METHODS["exact"], narrow, energy, Run())
    again = cache.known(METHODS["exact"], narrow, energy, Run())
    assert again is not None
    assert again.answer == found.answer
