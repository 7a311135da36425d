"""The bound on all mappings: each of its rules by itself, then floors of ways held against mappings of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Stop
from onchip.cost.layer.cost import layer_cost
from onchip.cost.layer.limits import array_of
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Axis, Layer
from onchip.lower.layers.layers_of import Precision
from onchip.native import least_chain
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.wide.bounds import WayBounds, bound_of_all, least_energy_delay
from onchip.solve.mapping.wide.chain import Way
from onchip.solve.mapping.wide.chain_energy import ChainEnergy
from onchip.solve.mapping.wide.chain_time import ChainTime
from onchip.solve.mapping.wide.floors import floor_of_any
from onchip.solve.mapping.wide.lattice import Lattice, Units
from onchip.solve.mapping.wide.least import least_product
from onchip.solve.mapping.wide.rows import AxisRows
from onchip.solve.mapping.wide.wide import solve_widely
from onchip.solve.run.limits import Limits, Run
from oracles.chains import least_of_all_chains
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping

ENOUGH = 1 << 60
ROUNDED = 1 + 1e-9


# Chains


@pytest.mark.parametrize("seed", range(60))
def test_the_least_chain_is_the_best_of_all_orders_in_all_places(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = [int(one) for one in random.integers(1, 4, 3)]
    counts = [(1, 1, 1), (2, 1, 0), (2, 1, 1), (0, 0, 0), (3, 0, 0)][seed % 5]
    tables = [[random.integers(0, 20, prod(shape)).astype(np.float64) for _ in range(count)] for count in counts]
    for own in tables:
        for table in own:
            table[random.random(len(table)) < 0.3] = inf
    assert least_chain(shape, tables) == least_of_all_chains(shape, tables)


def test_costs_that_are_not_of_each_point_are_refused() -> None:
    with pytest.raises(ValueError, match="costs are not of each point"):
        least_chain([2, 2], [[np.zeros(3)]])
    with pytest.raises(ValueError, match="a lattice without points"):
        least_chain([0], [])


@pytest.mark.parametrize("seed", range(40))
def test_no_product_is_below_the_least_of_what_both_numbers_and_their_sum_leave(seed: int) -> None:
    random = Random(seed)
    points = [(random.uniform(1, 10), random.uniform(1, 10)) for _ in range(random.randint(1, 6))]
    first, second = min(one for one, _ in points), min(two for _, two in points)
    for slope in (0.2, 1.0, 3.0):
        least_sum = min(slope * one + two for one, two in points)
        found = least_product(first, second, slope, least_sum)
        assert first * second <= found * ROUNDED
        assert found <= min(one * two for one, two in points) * ROUNDED
    assert least_product(2.0, 3.0, 1.0, 9.0) == min(2.0 * 7.0, 6.0 * 3.0)


# Places along one dimension


@dataclass(frozen=True)
class Line:
    """One dimension's loops, innermost first: sizes, and whether they run over units."""

    bound: int
    loops: tuple[tuple[int, bool], ...]

    def weight(self, at: int) -> int:
        return prod(size for size, _ in self.loops[:at])

    def sums(self, chosen: list[int]) -> list[int]:
        """Indices where these loops lead, all others at their first iteration."""
        steps = product(*(range(0, self.loops[at][0] * self.weight(at), self.weight(at)) for at in chosen))
        return [one for one in map(sum, steps) if one < self.bound]


def _lines(seed: int) -> Iterator[Line]:
    """Each loop is needed to its last iteration."""
    random = Random(seed)
    for _ in range(150):
        bound = random.randint(1, 40)
        loops, left = list[tuple[int, bool]](), bound
        while left > 1:
            size = random.choice([size for size in (2, 3, 4, 5, left) if size <= left])
            loops.append((size, random.random() < 0.4))
            left = -(-left // size)
        yield Line(bound, tuple(loops))


def _cell_of(line: Line, reached: int, cells: int, short: int, *, knows_sizes: bool) -> tuple[Lattice, int]:
    sizes = tuple(size for size, is_beside in line.loops if is_beside)
    units = Units(prod(sizes) if knows_sizes else 1, prod(sizes), sizes if knows_sizes else None)
    bounds = [1] * len(LOOPS)
    bounds[LOOPS.index("K")] = line.bound
    alone = Units(1, 1, ())
    lattice = Lattice.of(bounds, [units if bound > 1 else alone for bound in bounds], cells, short)
    dimension = lattice.dimensions[LOOPS.index("K")]
    (at,) = np.nonzero((dimension.first <= reached) & (reached <= dimension.last))[0]
    return lattice, int(at)


@pytest.mark.parametrize("knows_sizes", [True, False])
@pytest.mark.parametrize(("cells", "short"), [(1000, 0), (3, 0), (1000, 6)])
@pytest.mark.parametrize("seed", range(4))
def test_parts_of_a_dimension_are_as_many_and_as_long_as_its_cell_says(
    seed: int, cells: int, short: int, knows_sizes: bool
) -> None:
    """For every place between its loops, and every choice of loops over units that one instance serves."""
    for line in _lines(seed):
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        for inside in range(len(line.loops) + 1):
            within = [at for at in range(inside) if at not in beside]
            outside = [at for at in range(inside, len(line.loops)) if at not in beside]
            lattice, cell = _cell_of(line, len(line.sums(within + beside)), cells, short, knows_sizes=knows_sizes)
            dimension = lattice.dimensions[LOOPS.index("K")]
            assert min(prod(line.loops[at][0] for at in within), line.bound) <= dimension.turns[cell]
            for served in ([], beside, beside[:1], beside[1:]):
                apart = [at for at in beside if at not in served]
                units = prod(line.loops[at][0] for at in served), prod(line.loops[at][0] for at in apart)
                longest = len(line.sums(within + served))
                assert dimension.least_length(units[1])[cell] <= longest <= dimension.most_length(*units)[cell]
                assert dimension.parts(*units)[cell] <= len(line.sums(outside + apart)) * ROUNDED


@pytest.mark.parametrize("knows_sizes", [True, False])
@pytest.mark.parametrize("cells", [1000, 3])
@pytest.mark.parametrize("seed", range(4))
def test_no_more_of_a_dimension_lies_at_its_end_than_its_cell_says(seed: int, cells: int, knows_sizes: bool) -> None:
    """Where the first loop in time above a place has one iteration left, and one farther out has moved."""
    for line in _lines(seed):
        in_time = [at for at, (_, is_beside) in enumerate(line.loops) if not is_beside]
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        for inside in range(len(line.loops) + 1):
            within, above = [at for at in in_time if at < inside], [at for at in in_time if at >= inside]
            lattice, cell = _cell_of(line, len(line.sums(within + beside)), cells, 0, knows_sizes=knows_sizes)
            for farther in range(1, len(above)):
                first = line.weight(above[0])
                at_end = [place for place in line.sums(above[farther:]) if place + first >= line.bound]
                part = (line.bound - min(at_end)) / line.bound if at_end else 0.0
                assert part <= lattice.dimensions[LOOPS.index("K")].stays[cell] * ROUNDED
                places = len(line.sums(above))
                share = float(lattice.places_that_stay((LOOPS.index("K"),)).reshape(-1)[cell])
                assert (len(at_end) > 0) / places <= share * ROUNDED


# Rows of tiles of the input


def _rows(seed: int) -> Iterator[tuple[AxisRows, Axis, int, int]]:
    random = Random(seed)
    for _ in range(120):
        outputs, taps = random.randint(1, 9), random.randint(1, 5)
        axis = Axis("P", "R", random.randint(1, 3), random.randint(1, 3), random.randint(0, 3), random.randint(1, 20))
        yield AxisRows(axis, outputs, taps), axis, outputs, taps


def _stored(axis: Axis, outputs: range, taps: range) -> int:
    """From the first position of a tile to the last."""
    first = outputs[0] * axis.stride + taps[0] * axis.dilation - axis.padding
    last = outputs[-1] * axis.stride + taps[-1] * axis.dilation - axis.padding
    return max(min(last + 1, axis.size) - max(first, 0), 0)


def _cut(count: int, length: int) -> list[range]:
    return [range(start, min(start + length, count)) for start in range(0, count, length)]


@pytest.mark.parametrize("seed", range(6))
def test_tiles_of_the_input_reach_over_as_many_rows_as_is_said(seed: int) -> None:
    for rows, axis, outputs, taps in _rows(seed):
        for high, wide in product(range(1, outputs + 1), range(1, taps + 1)):
            tiles = {(p, r): _stored(axis, p, r) for p in _cut(outputs, high) for r in _cut(taps, wide)}
            sides = np.array([float(high)]), np.array([float(wide)])
            assert rows.moved(*sides, taps_shared_out=False)[0] <= sum(tiles.values()) * ROUNDED
            assert rows.largest(*sides)[0] <= max(tiles.values())
            assert max(tiles.values()) <= rows.most(*sides)[0]
            for tap in _cut(taps, wide):
                of_tap = sum(size for (_, own), size in tiles.items() if own == tap) / len(tap)
                least = rows.moved(sides[0], np.array([float(len(tap))]), taps_shared_out=True)[0] / taps
                assert least <= of_tap * ROUNDED
            last, low = _cut(outputs, high)[-1], _cut(taps, wide)[-1]
            before = sum(size for (p, r), size in tiles.items() if p != last and r != low)
            ends = np.array([len(last) / outputs]), np.array([len(low) / taps])
            assert rows.moved_but_at_the_end(*sides, *ends)[0] <= before * ROUNDED


@pytest.mark.parametrize("seed", range(4))
def test_taps_that_are_no_neighbours_meet_no_fewer_rows_than_is_said(seed: int) -> None:
    """Any outputs and any taps, as they may stand beside each other: positions in between do not count."""
    random = Random(seed)
    for rows, axis, outputs, taps in _rows(seed):
        scattered = AxisRows(axis, outputs, taps, taps_are_neighbours=False)
        own = random.sample(range(outputs), random.randint(1, outputs))
        some = random.sample(range(taps), random.randint(1, taps))
        met = {o * axis.stride + t * axis.dilation - axis.padding for o, t in product(range(outputs), some)}
        parts = [own, [one for one in range(outputs) if one not in own]]
        total = 0
        for part in parts:
            for others in (some, [one for one in range(taps) if one not in some]):
                met = {o * axis.stride + t * axis.dilation - axis.padding for o, t in product(part, others)}
                total += sum(0 <= position < axis.size for position in met)
        longest = max(len(part) for part in parts), max(len(some), taps - len(some))
        sides = np.array([float(longest[0])]), np.array([float(longest[1])])
        assert scattered.moved(*sides, taps_shared_out=False)[0] <= total * ROUNDED
        assert scattered.moved(*sides, taps_shared_out=False)[0] <= rows.moved(*sides, taps_shared_out=False)[0]


# Ways


def _way_of(problem: LayerProblem, mapping: LayerMapping, random: Random | None = None) -> Way:
    """The way of a mapping, or a range of ways around it."""
    array = array_of(problem.accelerator)
    least = np.ones((len(array.sizes), len(LOOPS)), np.int64)
    for loop in mapping.nest:
        if loop.along is not None:
            least[list(array.sizes).index(loop.along), LOOPS.index(loop.dimension)] *= loop.size
    most = least.copy()
    for at, loop in np.ndindex(most.shape):
        if random is not None and random.random() < 0.4:
            units = list(array.sizes.values())[at]
            most[at, loop] = min(random.randint(int(most[at, loop]), units), problem.layer.bounds[LOOPS[loop]])
            least[at, loop] = random.randint(1, int(least[at, loop]))
    return Way(problem, least, np.maximum(least, most))


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_mapping_of_a_way_is_below_its_floors(first: int) -> None:
    """On lattices of many cells and of few, with short loops shared out and not, alone and in a range of ways."""
    for seed in range(first, first + 20):
        problem = random_case(seed, most_macs=1500).problem
        mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
        try:
            cost = layer_cost(problem, mapping)
        except MappingError:
            continue
        for way in (_way_of(problem, mapping), _way_of(problem, mapping, Random(seed))):
            for cells, short in ((4000, 0), (4000, 4), (50, 4)):
                lattice = Lattice.of(way.bounds, way.units, cells, short)
                energy, time = ChainEnergy(way, lattice), ChainTime(way, lattice)
                assert energy.least_pj <= cost.energy_pj * ROUNDED, (seed, str(mapping))
                assert time.least_cycles <= cost.cycles * ROUNDED, (seed, str(mapping))
                product = least_energy_delay([energy], [time])
                assert energy.least_pj * time.least_cycles <= product <= cost.energy_pj * cost.cycles * ROUNDED


@pytest.mark.parametrize("first", range(200, 230, 10))
@pytest.mark.parametrize("objective", MappingObjective)
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


def test_a_bound_is_no_more_than_is_asked_for_and_tighter_than_the_first_floor() -> None:
    machine = load_accelerator("ascend-like")
    problem = LayerProblem(Precision().on(machine).of(Layer.of_text("gemm:m512n3072k768")), machine)
    floor = floor_of_any(problem, MappingObjective.ENERGY)
    value = solve_widely(problem, MappingObjective.ENERGY, Run()).objective_value
    assert value is not None
    bound = bound_of_all(problem, MappingObjective.ENERGY, value, Run())
    assert floor < 0.8 * value < 0.98 * value < bound <= value
    assert bound_of_all(problem, MappingObjective.ENERGY, floor, Run()) == floor


def test_a_bound_that_is_cut_short_holds() -> None:
    problem = LayerProblem(Layer(k=60, c=64, p=28, q=28, r=3, s=3), load_accelerator("simba"))
    run = Run(Limits(time_limit_seconds=0.0))
    assert run.stop is Stop.TIME_LIMIT
    cut = WayBounds(problem, MappingObjective.EDP).least(inf, run)
    few = WayBounds(problem, MappingObjective.EDP, most_nodes=20).least(inf, Run())
    assert 0 <= cut <= few <= WayBounds(problem, MappingObjective.EDP, most_nodes=60).least(inf, Run())


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
    assert Way(problem, least, most).least_turns == 8
    most[0, LOOPS.index("K")] = 1
    assert Way(problem, least, most).together((LOOPS.index("C"),), Way(problem, least, most).whole) == 8
