"""The exact mapper against every mapping of its mapspace, on toy layers and random machines."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import pytest

from mapspace import least_values, toy
from onchip.cost.layer import layer_cost
from onchip.frontends.accelerator_yaml import load_accelerator
from onchip.ir.loopnest import Layer
from onchip.plan.result import Status, Stop
from onchip.solve.limits import Limits, Run
from onchip.solve.mapping.exact import solve_exactly
from onchip.solve.mapping.objective import MappingObjective
from onchip.verify.mapping import verify_mapping

MOST_MAPPINGS = 3000


@pytest.mark.parametrize("seed", range(130))
def test_it_finds_the_best_of_all_mappings(seed: int) -> None:
    layer, accelerator = toy(seed)
    best = least_values(layer, accelerator, MOST_MAPPINGS)
    if best is None:
        pytest.skip("too many mappings to look at each")
    for objective, value in best.items():
        result = solve_exactly(layer, accelerator, objective, Run())
        if not isfinite(value):
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert result.answer is not None
        assert result.objective_value == pytest.approx(value, rel=1e-9, abs=1)
        assert verify_mapping(layer, accelerator, result.answer) == ()


def test_at_least_a_hundred_toys_are_small_enough() -> None:
    small = sum(least_values(*toy(seed), MOST_MAPPINGS) is not None for seed in range(130))
    assert small >= 100


def test_a_layer_on_simba_is_proven_and_costs_what_the_model_says() -> None:
    layer, accelerator = Layer(k=64, c=64, p=14, q=14, r=3, s=3, padding=(1, 1, 1, 1)), load_accelerator("simba")
    result = solve_exactly(layer, accelerator, MappingObjective.ENERGY, Run())
    assert result.status is Status.OPTIMAL
    assert result.answer is not None
    assert result.objective_value == result.lower_bound
    cost = layer_cost(layer, accelerator, result.answer)
    assert result.objective_value == pytest.approx(1000 * cost.energy_pj, rel=1e-9)


@pytest.mark.parametrize("objective", MappingObjective)
def test_larger_memories_never_cost_more_energy_or_time(objective: MappingObjective) -> None:
    layer, accelerator = toy(3)
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=4 * level.memory.capacity_bytes))
        for level in accelerator.levels
    )
    larger = replace(accelerator, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))
    small = solve_exactly(layer, accelerator, objective, Run()).objective_value
    large = solve_exactly(layer, larger, objective, Run()).objective_value
    assert small is not None
    assert large is not None
    assert large <= small


@pytest.mark.parametrize("objective", MappingObjective)
def test_a_run_that_is_cut_short_has_a_bound_below_its_mapping(objective: MappingObjective) -> None:
    layer, accelerator = Layer(k=64, c=64, p=28, q=28, r=3, s=3), load_accelerator("simba")
    solve_exactly(Layer(k=2, c=2), accelerator, objective, Run())
    result = solve_exactly(layer, accelerator, objective, Run(Limits(time_limit_seconds=0.5)))
    assert result.status in (Status.FEASIBLE, Status.OPTIMAL, Status.UNKNOWN)
    assert result.objective_value is None or result.lower_bound <= result.objective_value
    assert (result.status is Status.OPTIMAL) is (result.stopped_by is Stop.COMPLETED)


def test_a_mapping_to_begin_with_is_never_made_worse() -> None:
    layer, accelerator = toy(3)
    first = solve_exactly(layer, accelerator, MappingObjective.LATENCY, Run())
    again = solve_exactly(layer, accelerator, MappingObjective.LATENCY, Run(), first.answer)
    assert again.objective_value == first.objective_value


def test_a_layer_of_one_multiply_accumulate_has_one_mapping() -> None:
    accelerator = load_accelerator("simba")
    result = solve_exactly(Layer(), accelerator, MappingObjective.ENERGY, Run())
    assert result.status is Status.OPTIMAL
    assert result.answer is not None
    assert result.objective_value == round(1000 * layer_cost(Layer(), accelerator, result.answer).energy_pj)
