"""The bound on all mappings: each of its rules alone, then floors of ways against mappings of all kinds."""

from __future__ import annotations

from math import inf, prod
from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Stop
from onchip.bounds.layer.floors import floor_of_any
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime
from onchip.mapping.chains.lattice import Lattice
from onchip.mapping.prove import bounds
from onchip.mapping.prove.bounds import Found, WayBounds, bound_of_all
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.mapping.prove.wide import solve_widely
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import array_of
from onchip.native import least_chain
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits, Run
from oracles.chains import least_of_all_chains
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping
from support.series import in_one_test, series, with_slow
from support.ways import way_of

ENOUGH = 1 << 60
ROUNDED = 1 + 1e-9


# Chains


@pytest.mark.parametrize("seed", series(range(60), 20))
def test_the_least_chain_is_the_best_of_all_orders_in_all_places(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = [int(one) for one in random.integers(1, 4, 3)]
    counts = [(1, 1, 1), (2, 1, 0), (2, 1, 1), (0, 0, 0), (3, 0, 0)][seed % 5]
    tables = [[random.integers(0, 20, prod(shape)).astype(np.float64) for _ in range(count)] for count in counts]
    for own in tables:
        for table in own:
            table[random.random(len(table)) < 0.3] = inf
    assert least_chain(shape, tables) == least_of_all_chains(shape, tables)


@in_one_test("seed", range(20))
def test_costs_that_are_the_same_along_a_dimension_count_in_each_of_its_points(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = [int(one) for one in random.integers(1, 5, 4)]
    tables = [
        [random.integers(0, 20, [one if random.random() < 0.5 else 1 for one in shape]).astype(np.float64) for _ in own]
        for own in ((1, 2), (1,), ())
    ]
    repeated = [[np.broadcast_to(one, shape).flatten() for one in own] for own in tables]
    assert least_chain(shape, tables) == least_chain(shape, repeated)


def test_costs_that_are_not_of_each_point_are_refused() -> None:
    with pytest.raises(ValueError, match="costs are not of each point"):
        least_chain([2, 2], [[np.zeros((2, 3))]])
    with pytest.raises(ValueError, match="costs are not of each point"):
        least_chain([2, 2], [[np.zeros(3)]])
    with pytest.raises(ValueError, match="a lattice without points"):
        least_chain([0], [])


# Ways


def _ways_around(problem: LayerProblem, mapping: LayerMapping, random: Random) -> UnrolledWays:
    """Return a random range of ways that contains the way of the mapping."""
    array, way = array_of(problem.accelerator), way_of(problem, mapping)
    least, most = way.least.copy(), way.most.copy()
    for at, loop in np.ndindex(most.shape):
        if random.random() < 0.4:
            units = list(array.sizes.values())[at]
            most[at, loop] = min(random.randint(int(most[at, loop]), units), problem.layer.bounds[LOOPS[loop]])
            least[at, loop] = random.randint(1, int(least[at, loop]))
    return UnrolledWays(problem, least, np.maximum(least, most))


@pytest.mark.parametrize("first", series(range(0, 200, 10), 1))
def test_no_mapping_of_a_way_is_below_its_floors(first: int) -> None:
    """On lattices of many cells and of few, alone and in a range of ways."""
    for seed in range(first, first + 10):
        problem = random_case(seed, most_macs=1500).problem
        mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
        try:
            cost = layer_cost(problem, mapping)
        except MappingError:
            continue
        for way in (way_of(problem, mapping), _ways_around(problem, mapping, Random(seed))):
            for cells in (4000, 50):
                lattice = Lattice.of(way.bounds, way.units, cells)
                energy, time = ChainEnergy(way, lattice), ChainTime(way, lattice)
                assert energy.least_pj <= cost.energy_pj * ROUNDED, (seed, str(mapping))
                assert time.least_cycles <= cost.cycles * ROUNDED, (seed, str(mapping))


@pytest.mark.parametrize("first", series(range(200, 230, 10), 1))
@pytest.mark.parametrize("objective", with_slow(MappingObjective, lambda one: one is not MappingObjective.LATENCY))
def test_no_mapping_is_below_the_bound_of_all(first: int, objective: MappingObjective) -> None:
    for seed in range(first, first + 6):
        problem = random_case(seed, most_macs=300).problem
        mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
        try:
            cost = layer_cost(problem, mapping)
        except MappingError:
            continue
        value = objective.of(cost.energy_pj, cost.cycles)
        assert bound_of_all(problem, objective, ENOUGH, Run()) <= value * ROUNDED, (seed, str(mapping))


@pytest.mark.slow
def test_a_bound_is_no_more_than_is_asked_for_and_tighter_than_the_first_floor() -> None:
    machine = load_accelerator("ascend-like")
    problem = LayerProblem(Precision().on(machine).of(Layer.of_text("gemm:m512n3072k768")), machine)
    floor = floor_of_any(problem, MappingObjective.ENERGY)
    value = solve_widely(problem, MappingObjective.ENERGY, Run()).objective_value
    assert value is not None
    bound = bound_of_all(problem, MappingObjective.ENERGY, value, Run())
    assert floor < 0.8 * value < 0.98 * value < bound <= value
    assert bound_of_all(problem, MappingObjective.ENERGY, floor, Run()) == floor


def test_a_bound_asked_again_is_no_higher_than_where_coordinates_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinates are left out if no mapping there is below the target of that call; the bound stays at that target."""

    def none_is_below(_way: UnrolledWays, _objective: MappingObjective, limit: float, *_rest: object) -> Found:
        return Found(limit, [], is_ended=True, left=[[(one, one)] for one in problem.layer.bounds.values()])

    monkeypatch.setattr(bounds, "least_together", none_is_below)
    problem = LayerProblem(Layer(k=2), load_accelerator("simba"))
    own = WayBounds(problem, MappingObjective.ENERGY)
    assert own.least(ENOUGH, Run()) == ENOUGH
    assert own.least(2 * ENOUGH, Run()) == ENOUGH


@pytest.mark.slow
def test_a_bound_that_is_cut_short_holds() -> None:
    problem = LayerProblem(Layer(k=60, c=64, p=28, q=28, r=3, s=3), load_accelerator("simba"))
    run = Run(Limits(time_limit_seconds=0.0))
    assert run.stop is Stop.TIME_LIMIT
    cut = WayBounds(problem, MappingObjective.EDP).least(inf, run)
    few = WayBounds(problem, MappingObjective.EDP, most_nodes=20).least(inf, Run())
    assert 0 <= cut <= few <= WayBounds(problem, MappingObjective.EDP, most_nodes=60).least(inf, Run())


@pytest.mark.slow
def test_ways_with_more_units_than_iterations_are_not_looked_into() -> None:
    """A loop of 3 on 8 x 8 units would leave more of them idle than its last iteration can."""
    problem = LayerProblem(Layer(k=3, c=5), load_accelerator("simba"))
    for objective in MappingObjective:
        assert 0 < bound_of_all(problem, objective, ENOUGH, Run()) < ENOUGH


def test_loops_along_one_dimension_share_its_units() -> None:
    problem = LayerProblem(Layer(k=8, c=8), load_accelerator("simba"))
    least = np.ones((3, len(LOOPS)), np.int64)
    most = least.copy()
    most[0, LOOPS.index("K")] = most[0, LOOPS.index("C")] = 8
    assert UnrolledWays(problem, least, most).least_turns == 8
    most[0, LOOPS.index("K")] = 1
    assert (
        UnrolledWays(problem, least, most).together((LOOPS.index("C"),), UnrolledWays(problem, least, most).whole) == 8
    )
