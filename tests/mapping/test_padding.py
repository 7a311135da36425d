"""`exact` with padded bounds against every mapping of every padded layer, and the rule of what may be padded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import isfinite

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status, Stop
from onchip.bounds.layer.floors import compulsory_cost
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import INPUT, LOOPS, Layer
from onchip.mapping.space.padding import padded_bounds, padded_layers, solve_padded
from onchip.mapping.space.spaces import padded_mappings
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import are_few, homed_toy, lean_toy, least_values, toy
from support.series import series

MOST_MAPPINGS = 1500
PERCENT = 50
SEEDS = range(20, 60)


def longer(layer: Layer) -> list[Layer]:
    """Return all layers of at most PERCENT longer loops by brute force. No toy loop reaches a prime above 7."""
    choices = [range(bound, bound * (100 + PERCENT) // 100 + 1) for bound in layer.bounds.values()]
    return [layer.padded_to(dict(zip(LOOPS, bounds, strict=True))) for bounds in product(*choices)]


def small(seed: int) -> Layer:
    """With loops of at most 4, most of them of 1, so that every padded layer can be looked at."""
    layer = toy(seed).layer
    kept = dict(sorted(layer.bounds.items(), key=lambda item: -item[1])[:2])
    n, k, c, p, q, r, s, g = (min(kept.get(loop, 1), 4) for loop in LOOPS)
    return replace(layer, n=n, k=k, c=c, p=p, q=q, r=r, s=s, g=g, padding=(0, 0, 0, 0))


@pytest.mark.parametrize(
    "seed", series((20, 22, 23, 24, 25, 27, 28, 29, *(seed for seed in SEEDS if seed > 29), 21, 26), 8)
)
def test_it_finds_the_best_of_all_mappings_of_all_padded_layers(seed: int) -> None:
    layer, accelerator = small(seed), toy(seed).accelerator
    each = [least_values(LayerProblem(one, accelerator), MOST_MAPPINGS) for one in longer(layer)]
    if None in each:
        pytest.skip("too many mappings to look at each")
    for objective in MappingObjective:
        least = min(values[objective] for values in each if values is not None)
        result = solve_padded(LayerProblem(layer, accelerator), objective, Run(), PERCENT)
        if not isfinite(least):
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert result.objective_value == result.lower_bound == pytest.approx(least, rel=1e-9, abs=1)
        assert result.answer is not None
        assert verify_mapping(LayerProblem(result.answer.layer(layer), accelerator), result.answer) == ()


@pytest.mark.slow
def test_the_cases_are_small_enough_and_some_are_better_padded() -> None:
    looked_at = [
        seed
        for seed in SEEDS
        if all(are_few(LayerProblem(one, toy(seed).accelerator), MOST_MAPPINGS) for one in longer(small(seed)))
    ]
    assert len(looked_at) >= len(SEEDS) // 2
    assert any(map(is_better_padded, looked_at))


def is_better_padded(seed: int) -> bool:
    latencies = []
    for one in longer(small(seed)):
        values = least_values(LayerProblem(one, toy(seed).accelerator), MOST_MAPPINGS)
        assert values is not None
        latencies.append(values[MappingObjective.LATENCY])
    return min(latencies) < latencies[0]


def test_bounds_are_longer_by_at_most_so_much_and_split_into_small_primes() -> None:
    assert padded_bounds(13, 20) == (13, 14, 15)
    assert padded_bounds(11, 9) == (11,)
    assert padded_bounds(127, 1) == (127, 128)
    assert padded_bounds(1, 100) == (1,)
    assert padded_bounds(13, 0) == (13,)


def test_the_layer_itself_comes_first_and_strides_reach_farther_into_a_padded_input() -> None:
    layer = Layer(k=13, p=13, q=7, r=3, s=3, stride=(2, 1), padding=(1, 1, 1, 1))
    found = list(padded_layers(layer, 8))
    assert found[0] == layer
    assert [(one.k, one.p) for one in found] == [(13, 13), (13, 14), (14, 13), (14, 14)]
    assert found[1].axes[0].size == layer.axes[0].size + 2
    assert found[1].padding == layer.padding


def test_a_mapping_of_a_padded_layer_costs_the_same_as_of_the_layer_it_pads() -> None:
    layer, accelerator = Layer(k=61, c=64, p=14, q=14, padding=(1, 1, 1, 1)), load_accelerator("simba")
    result = solve_padded(LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(), 10)
    assert result.answer is not None
    executed = result.answer.layer(layer)
    assert executed != layer
    own, padded = (layer_cost(LayerProblem(one, accelerator), result.answer) for one in (layer, executed))
    assert (own.energy_pj, own.cycles) == (padded.energy_pj, padded.cycles)
    assert own.macs < padded.macs


@pytest.mark.parametrize("objective", MappingObjective)
def test_padding_never_costs_and_helps_a_prime(objective: MappingObjective) -> None:
    layer, accelerator = Layer(n=13, k=31, c=17), load_accelerator("simba")
    plain = solve_exactly(LayerProblem(layer, accelerator), objective, Run()).objective_value
    values = [
        solve_padded(LayerProblem(layer, accelerator), objective, Run(), percent).objective_value for percent in (0, 4)
    ]
    assert plain is not None
    assert values[0] == plain
    assert values[1] is not None
    assert values[1] < plain


@pytest.mark.parametrize("make", [toy, lean_toy, homed_toy])
@pytest.mark.parametrize("seed", series(range(60), 5))
def test_no_mapping_is_below_the_floor(make: Callable[[int], LayerProblem], seed: int) -> None:
    problem = make(seed)
    least = least_values(problem, 500) or {}
    for objective, value in least.items():
        assert objective.of(*compulsory_cost(problem)) <= value * (1 + 1e-9)


def test_rows_that_a_stride_skips_are_not_in_the_floor() -> None:
    accelerator = load_accelerator("simba")
    strided, dense = Layer(c=8, p=9, q=9, stride=(2, 2)), Layer(c=8, p=9, q=9)
    assert strided.elements(INPUT) > dense.elements(INPUT)
    assert compulsory_cost(LayerProblem(strided, accelerator)) == compulsory_cost(LayerProblem(dense, accelerator))


def test_a_limit_of_no_time_claims_no_more_than_a_floor() -> None:
    layer, accelerator = Layer(k=61, c=64, p=13), load_accelerator("simba")
    result = solve_padded(
        LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(Limits(time_limit_seconds=0)), 10
    )
    assert (result.status, result.stopped_by) == (Status.UNKNOWN, Stop.TIME_LIMIT)
    floor = compulsory_cost(LayerProblem(layer, accelerator))
    assert 0 < result.lower_bound <= MappingObjective.ENERGY.of(*floor)


def test_too_many_padded_layers_are_refused() -> None:
    with pytest.raises(InputError, match="padding by 100 % makes"):
        list(padded_layers(Layer(n=1000, k=1000, c=1000, p=1000), 100))


def test_the_mapspace_says_what_was_padded() -> None:
    assert "at most 12 % longer and without a prime factor above 7" in padded_mappings(12).definition
