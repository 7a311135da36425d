"""The best mapping where operands are, in the room that is left: held to every mapping of toy layers."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path
from random import Random

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status
from onchip.answer.schedule import Homes
from onchip.arch.memory import Operand
from onchip.errors import UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.methods.cache import MappingCache, best_mapping_at, map_layer_at
from onchip.search.budget.limits import Run
from onchip.verify.mapping import tile_bits
from oracles.mapspace import homed_toy, least_values
from support.nests import workspace_of
from support.series import in_one_test, series

ENERGY = MappingObjective.ENERGY
METHODS = ("exact", "loma")


def in_less_room(seed: int) -> LayerProblem:
    """Return a toy with random room in each addressed memory, from two bytes to all of it."""
    random, problem = Random(seed), homed_toy(seed)
    room = {level.memory.name: problem.room_bits(level.memory.name) // 8 for level in problem.accelerator.addressed}
    return replace(problem, room_bytes={name: random.randint(min(2, most), most) for name, most in room.items()})


@pytest.mark.parametrize("seed", series((*range(6), *range(7, 12), *range(13, 24), 6, 12), 10))
def test_the_proven_mapping_is_the_best_that_the_room_allows(seed: int) -> None:
    problem = in_less_room(seed)
    least = least_values(problem, 3000)
    if least is None:
        pytest.skip("too many mappings to look at each")
    result = map_layer_at(problem, ENERGY, Run())
    assert result.status is (Status.OPTIMAL if isfinite(least[ENERGY]) else Status.INFEASIBLE)
    if result.answer is not None:
        assert result.objective_value == result.lower_bound == pytest.approx(least[ENERGY], rel=1e-9, abs=1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(8))
def test_a_mapping_needs_at_most_the_room_that_there_is(seed: int, method: str) -> None:
    problem = in_less_room(seed)
    result = map_layer_at(problem, ENERGY, Run(), method)
    if result.answer is None:
        return
    for name, size in workspace_of(problem, result.answer).items():
        assert size <= problem.room_bytes.get(name, problem.room_bits(name) // 8)
        assert sum(tile_bits(problem, result.answer)[name].values()) <= 8 * size


@in_one_test("seed", range(12))
def test_more_room_never_costs_more(seed: int) -> None:
    problem = in_less_room(seed)
    tight, wide = (map_layer_at(one, ENERGY, Run()) for one in (problem, replace(problem, room_bytes={})))
    if tight.objective_value is not None:
        assert wide.objective_value is not None
        assert wide.objective_value <= tight.objective_value


def test_a_feature_map_as_weight_is_mapped_where_inputs_are() -> None:
    """A separate register for weights is bypassed if both operands are feature maps."""
    machine = load_accelerator("meta-prototype-df")
    layer = Layer(g=64, partial_bits=16)
    parameter, feature_map = (
        map_layer_at(LayerProblem(layer, machine, weight_is_an_input=is_input), ENERGY, Run()).answer
        for is_input in (False, True)
    )
    assert parameter is not None
    assert feature_map is not None
    inputs = [level.memory.name for level in machine.levels if Operand.INPUT in level.memory.holds]
    assert [one.memory for one in feature_map.weight] == inputs
    assert [one.memory for one in parameter.weight] != inputs


def test_what_is_kept_between_runs_is_kept_by_homes_and_room(tmp_path: Path) -> None:
    machine, cache = load_accelerator("meta-prototype-df"), MappingCache(tmp_path)
    layer = Layer(k=8, c=8, p=8, q=8, partial_bits=16)
    problems = [
        LayerProblem(layer, machine),
        LayerProblem(layer, machine, Homes(input="activation_local_buffer")),
        LayerProblem(layer, machine, room_bytes={"activation_local_buffer": 48}),
    ]

    def found() -> list[SearchResult[object]]:
        return [replace(map_layer_at(one, ENERGY, Run(), cache=cache), seconds=0) for one in problems]

    first = found()
    assert len(list(tmp_path.glob("mappings/*.json"))) == 3
    assert len({one.objective_value for one in first}) == 3
    assert found() == first


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("objective", MappingObjective)
def test_the_best_of_both_is_no_worse_than_loma_or_exact_alone(seed: int, objective: MappingObjective) -> None:
    problem = homed_toy(seed)
    alone = [map_layer_at(problem, objective, Run(), method).objective_value for method in ("loma", "exact")]
    found = best_mapping_at(problem, objective, Run())

    assert found.objective_value == min((one for one in alone if one is not None), default=None)
    assert (found.status is Status.INFEASIBLE) == (found.objective_value is None)


def test_the_best_of_both_is_kept_beside_what_exact_alone_finds(tmp_path: Path) -> None:
    machine, cache = load_accelerator("tpu-like-df"), MappingCache(tmp_path)
    problem = LayerProblem(Layer(k=8, c=8, p=8, q=8, r=3, s=3, partial_bits=16), machine)
    exact = [map_layer_at(problem, ENERGY, Run(), cache=cache).objective_value for _ in range(2)]
    both = [best_mapping_at(problem, ENERGY, Run(), cache).objective_value for _ in range(2)]

    assert len(list(tmp_path.glob("mappings/*.json"))) == 2
    assert exact[0] == exact[1]
    assert both[0] == both[1] is not None


def test_another_method_is_refused() -> None:
    with pytest.raises(UsageError, match="method: there is no method 'best'"):
        map_layer_at(homed_toy(0), ENERGY, Run(), "best")
