"""Lower bounds on the accesses and the cost of mappings."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf, isfinite, prod
from pathlib import Path
from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.schedule import Homes
from onchip.arch.memory import Operand
from onchip.bounds.layer.floors import floor_of_any
from onchip.errors import UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.chains.criteria import (
    MOST_LACKING,
    ChainEnergy,
    ChainTime,
    least_accesses,
    least_of_grid,
    least_share,
    whole_accesses,
)
from onchip.mapping.chains.dimension import PartsAlike
from onchip.mapping.chains.lattice import Lattice
from onchip.mapping.methods.cache import MappingCache, best_mapping_at, map_layer_at
from onchip.mapping.prove import bounds
from onchip.mapping.prove.bounds import Found, WayBounds, bound_of_all
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.mapping.prove.wide import solve_widely
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import array_of
from onchip.native import least_chain
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import tile_bits
from oracles.chains import least_of_all_chains
from oracles.mapspace import homed_toy, least_values
from support.nests import random_case, workspace_of
from support.ragged_nests import random_ragged_mapping
from support.series import in_one_test, series, with_slow
from support.ways import way_of

# The bound on all mappings: each of its rules alone, then floors of ways against mappings of all kinds


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


# The best mapping where operands are, in the room that is left: held to every mapping of toy layers


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


# Lower bounds on accesses if tiles use the last access in part: no tile sizes take fewer


def _along(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(value)])


@pytest.mark.parametrize("seed", range(4))
def test_no_tiles_take_fewer_accesses_than_is_said_of_them_together(seed: int) -> None:
    """Tiles may be fewer than stated, and some may be larger than counted."""
    random, tight = Random(seed), 0
    for _ in range(2000):
        whole, bits, shortest = random.randint(1, 9), random.choice((1, 4, 8, 16, 24)), random.choice((8, 16, 64, 100))
        most = whole * random.randint(1, 40)
        least = random.choice((0, most - whole, most - 3 * whole))
        sizes = [whole * random.randint(max(least // whole, 0), most // whole) for _ in range(random.randint(1, 9))]
        beyond = [one * random.randint(1, 3) if one == most else one for one in sizes]
        accesses = sum(-(-one * bits // shortest) for one in beyond)
        tiles = _along(len(sizes) + random.randint(0, 1))
        all_are_there = np.array([0 not in sizes and int(tiles[0]) == len(sizes)])
        found = least_accesses(_along(most), tiles, _along(sum(sizes)), _along(whole), all_are_there, bits, shortest)[0]
        assert whole_accesses(np.maximum(found, sum(sizes) * bits / shortest)) <= accesses
        tight += found > sum(sizes) * bits / shortest and found == pytest.approx(accesses)
    assert tight > 20


@pytest.mark.parametrize("seed", range(4))
def test_no_tile_takes_fewer_accesses_than_is_said_of_its_elements(seed: int) -> None:
    random = Random(seed)
    for _ in range(2000):
        whole, bits, shortest = random.randint(1, 9), random.choice((1, 4, 8, 16, 24)), random.choice((8, 16, 64, 100))
        most = random.choice((3, 40, 600))
        size = whole * random.randint(1, most)
        share = least_share(_along(whole * most), _along(whole), bits, shortest)[0]
        assert share * size <= -(-size * bits // shortest) * ROUNDED
        assert share * ROUNDED >= bits / shortest


@pytest.mark.parametrize("seed", range(4))
def test_no_grid_of_tiles_takes_fewer_accesses_than_is_said(seed: int) -> None:
    """Parts have up to three dimensions, and random lengths along dimensions that lack a few indices."""
    random, tight = Random(seed), 0
    for _ in range(600):
        bits, shortest = random.choice((1, 4, 8, 16, 24)), random.choice((8, 16, 64, 100))
        sides = [_side(random) for _ in range(random.randint(1, 3))]
        tiles = sides[0][1]
        for _, other in sides[1:]:
            tiles = tiles.beside(other)
        sizes = (prod(lengths) for lengths in product(*(lengths for lengths, _ in sides)))
        accesses = sum(-(-size * bits // shortest) for size in sizes)
        found = least_of_grid(tiles, bits, shortest)[0]
        assert found <= accesses
        tight += bool(tiles.sides) and found == accesses
    assert tight > 100


def _side(random: Random) -> tuple[list[int], PartsAlike]:
    """Return the lengths of parts and their description, which sometimes leaves the missing indices open."""
    parts, longest = random.randint(1, 5), random.randint(1, 9)
    lengths, lacks = [longest] * parts, random.choice((0, 0, random.randint(0, min(10, parts * longest))))
    for _ in range(lacks):
        lengths[random.choice([at for at, one in enumerate(lengths) if one > 0])] -= 1
    said = lacks if random.random() < 0.9 else inf
    each = (_along(parts), _along(longest), _along(sum(lengths)), _along(1))
    return lengths, PartsAlike.of_side(*each, lacks=_along(said))


def test_of_parts_that_lack_more_than_a_few_indices_nothing_is_said_of_each() -> None:
    each = _along(9), _along(4), _along(20), _along(1)
    for lacks in (MOST_LACKING + 1.0, inf):
        assert least_of_grid(PartsAlike.of_side(*each, lacks=_along(lacks)), 8, 8)[0] == 0.0
    assert least_of_grid(PartsAlike.of_side(*each), 8, 8)[0] == 0.0
