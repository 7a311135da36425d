"""The compiled cost model compared with the plain one, which follows the definition."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.tables import CostStatus, LayerCosts
from support.nests import Case, random_accelerator, random_case, random_layer, random_mapping, random_problem
from support.series import series


def _tightened(accelerator: Accelerator, random: Random) -> Accelerator:
    """Return the accelerator with memories in which many tiles do not fit."""
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=random.choice((2, 8, 32, 1 << 20))))
        for level in accelerator.levels
    )
    return replace(accelerator, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))


def _assert_equal(case: Case, energy_pj: float, cycles: int, status: int) -> None:
    try:
        cost = layer_cost(case.problem, case.mapping)
    except MappingError:
        assert (status, cycles, energy_pj) == (CostStatus.OVER_CAPACITY, -1, np.inf), case
        return
    assert status == CostStatus.COSTED, case
    assert cycles == round(cost.cycles), case
    assert energy_pj == pytest.approx(cost.energy_pj, rel=1e-12), case


@pytest.mark.parametrize("seed", series(range(60), 30))
def test_many_mappings_of_one_layer_cost_what_each_costs(seed: int) -> None:
    random = Random(seed)
    accelerator = random_accelerator(random)
    if seed % 3 == 0:
        accelerator = _tightened(accelerator, random)
    layer = random_layer(random, most_macs=20000)
    problem = random_problem(random, layer, accelerator)
    mappings = [random_mapping(random, problem) for _ in range(100)]
    costs = LayerCosts(problem).of(mappings)
    for row, mapping in enumerate(mappings):
        case = Case(problem, mapping)
        _assert_equal(case, costs.energy_pj[row], int(costs.cycles[row]), int(costs.status[row]))


def test_few_mappings_are_left_to_the_other_model_and_most_are_not() -> None:
    statuses = []
    for seed in range(300):
        case = random_case(seed)
        costs = LayerCosts(case.problem)
        statuses.append(int(costs.of_chosen(costs.encode([case.mapping])).status[0]))
    assert set(statuses) == {CostStatus.COSTED, CostStatus.INTERLEAVED}
    assert statuses.count(CostStatus.COSTED) > 250


def test_a_row_that_exceeds_the_array_says_so() -> None:
    accelerator = replace(random_accelerator(Random(0)), array=ComputeArray(free=4, mac_energy_pj=0.0))
    costs = LayerCosts(LayerProblem(Layer(k=8), accelerator))
    chosen = costs.encode([LayerMapping((Loop("K", 4, "free"), Loop("K", 2)))])
    assert costs.of_chosen(chosen).status[0] == CostStatus.COSTED
    chosen.spatial_size[0, 0] = 5
    assert costs.of_chosen(chosen).status[0] == CostStatus.OVER_ARRAY


def test_what_cannot_be_encoded_is_refused() -> None:
    accelerator = random_accelerator(Random(0))
    with pytest.raises(MappingError, match="mapping 1: its loops are not the layer's"):
        LayerCosts(LayerProblem(Layer(k=2), accelerator)).encode(
            [LayerMapping((Loop("K", 2),)), LayerMapping((Loop("K", 3),))]
        )
    with pytest.raises(InputError, match="too large for the compiled cost model"):
        LayerCosts(LayerProblem(Layer(p=1 << 16), accelerator))
    with pytest.raises(InputError, match=f"at most {1 << 46} multiply-accumulates"):
        LayerCosts(LayerProblem(Layer(n=1 << 16, k=1 << 16, c=(1 << 14) + 1), accelerator))
