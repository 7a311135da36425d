"""Bad arguments of the exact mapper's compiled part raise Python errors."""

from __future__ import annotations

import numpy as np
import pytest

from onchip import native
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.model.layer.tables import LayerCosts, native_layer, native_machine

LEVELS = 5
DIMENSIONS = 3
ONES = [1] * 8
COLUMNS = (
    "turn_count", "turn_loop", "turn_size", "beside_count", "beside_loop", "beside_size", "beside_along", "beside_at",
    "cut",
)  # fmt: skip


def space(**changed: object) -> native.ExactSpace:
    problem = LayerProblem(Layer(k=4, c=6, p=2), load_accelerator("simba"))
    fields: dict[str, object] = {
        "layer": native_layer(problem.layer, problem.accelerator),
        "machine": native_machine(problem),
        "bounds": list(problem.layer.bounds.values()),
        "holds": [[True] * LEVELS] * 3,
        "touched": [12.0, 24.0, 8.0],
        "ways": [[ONES]] * DIMENSIONS,
    }
    return native.ExactSpace(**{**fields, **changed})  # type: ignore[arg-type]


def test_the_space_that_is_changed_below_is_accepted() -> None:
    way = native.ExactWay(space(), native.ExactObjective.ENERGY)
    assert way.floor([0, 0, 0]) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"bounds": [0, *ONES[1:]]}, {"bounds": [-1, *ONES[1:]]}, {"bounds": ONES}, {"bounds": [1 << 31, *ONES[1:]]},
        {"bounds": [1, 1 << 30, 1 << 30, 2, 1, 1, 1, 1 << 30]},
        {"holds": [[True] * LEVELS] * 2 + [[True]]}, {"holds": [[]] * 3},
        {"ways": []}, {"ways": [[ONES]]}, {"ways": [[ONES], [], [ONES]]}, {"ways": [[[3, *ONES[1:]]], [ONES], [ONES]]},
        {"ways": [[[0, *ONES[1:]]], [ONES], [ONES]]},
    ],
    ids=str,
)  # fmt: skip
def test_a_space_that_there_cannot_be_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        space(**changed)


@pytest.mark.parametrize(
    "changed",
    [{"bounds": ONES[1:]}, {"bounds": [1 << 64, *ONES[1:]]}, {"ways": [[ONES[1:]]] * DIMENSIONS}, {"holds": [[True]]}],
    ids=str,
)
def test_a_column_of_another_form_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        space(**changed)


@pytest.mark.parametrize("row", [[], [0, 0], [0, 0, 1], [0, 0, -1], [0, 0, 0, 0]])
def test_a_way_that_there_is_not_is_refused(row: list[int]) -> None:
    way = native.ExactWay(space(), native.ExactObjective.PRODUCT)
    for ask in (way.floor, lambda one: way.chains(one, 1e9), lambda one: way.may_be_below(one, 1.0, 1e9, way.criteria)):
        with pytest.raises(ValueError, match="a way"):
            ask(row)


def test_criteria_have_to_be_given() -> None:
    way = native.ExactWay(space(), native.ExactObjective.LATENCY)
    with pytest.raises(ValueError, match="no criterion"):
        way.may_be_below([0, 0, 0], 1.0, 1e9, [])


def test_a_run_has_a_worker() -> None:
    with pytest.raises(ValueError, match="no worker"):
        native.ExactMapper(space(), native.ExactObjective.ENERGY).run(1e30, native.StopToken(), 0, 1, 1)


def test_who_is_asked_to_stop_stops_at_once() -> None:
    token = native.StopToken()
    token.ask()
    mapper = native.ExactMapper(space(), native.ExactObjective.ENERGY)
    mapper.run(1e30, token, 1, 1 << 60, 1 << 60)
    assert mapper.nodes == 0
    assert mapper.answer is None


def test_a_run_of_less_than_no_nodes_is_refused_and_one_of_none_looks_into_nothing() -> None:
    mapper = native.ExactMapper(space(), native.ExactObjective.ENERGY)
    with pytest.raises(ValueError, match="fewer than 0"):
        mapper.run(1e30, native.StopToken(), 1, -1, 1)
    mapper.run(1e30, native.StopToken(), 1, 0, 1)
    assert (mapper.nodes, mapper.answer, mapper.proven) == (0, None, 0.0)
    mapper.run(1e30, native.StopToken(), 1, (1 << 63) - 1, (1 << 63) - 1)
    assert mapper.proven > 0


def refiner(**changed: object) -> native.ExactRefiner:
    problem = LayerProblem(Layer(k=4, c=6, p=2), load_accelerator("simba"))
    nest = (Loop("C", 3), Loop("K", 4), Loop("C", 2), Loop("P", 2))
    chosen = LayerCosts(problem).encode([LayerMapping(nest, output=(Kept("accumulation_buffer", 1),))])
    fields: dict[str, object] = {
        "layer": native_layer(problem.layer, problem.accelerator),
        "machine": native_machine(problem),
        "objective": native.ExactObjective.LATENCY,
        "unrolls": [[True] * 8] * DIMENSIONS,
        "seed": 1,
        **dict(zip(COLUMNS, chosen, strict=True)),
    }
    return native.ExactRefiner(**{**fields, **changed})  # type: ignore[arg-type]


def test_the_mapping_that_is_changed_below_is_accepted() -> None:
    search = refiner()
    before = search.value
    search.go_on(500)
    assert search.value < before


@pytest.mark.parametrize(
    "changed",
    [
        {"unrolls": [[True] * 8]}, {"unrolls": [[True]] * DIMENSIONS}, {"cut": np.full((1, 3, LEVELS), 5)},
        {"cut": np.array([[[-1] * LEVELS, [-1] * LEVELS, [2, 1, -1, -1, -1]]])}, {"cut": np.zeros((1, 3, 1), np.int64)},
        {"turn_count": np.array([4, 4])}, {"turn_size": np.zeros((1, 4), np.int64)},
    ],
    ids=str,
)  # fmt: skip
def test_a_mapping_that_there_cannot_be_is_not_refined(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        refiner(**changed)
