"""Floors and rules of the exact mapper, one at a time: no completion of a pruned choice is better.

Completions are all mappings of the mapspace as `oracles.mapspace` lists them, costed by the cost model. The tests
query the mapper's compiled part for one floor, one criterion or one bound at a time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from math import isfinite, prod
from random import Random

import pytest

from adversary.levels.map import random_layer as odd_layer
from adversary.levels.map import random_machine as odd_machine
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.accelerator import Accelerator
from onchip.bounds.layer.floors import compulsory_cost
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, load_accelerator
from onchip.ir.layer import INPUT, LOOPS, Layer
from onchip.mapping.tile_search.exact import OBJECTIVES, mapping_of, space_of, ways_of
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import LayerCosts
from onchip.native import ExactWay
from oracles.mapspace import all_mappings, homed_toy, lean_toy, least_values, toy, units_of
from support.series import series

MOST_MAPPINGS = 1200
ENOUGH = 1e30
ROUNDED = 1 + 1e-9
Way = tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class Bench:
    """A problem, and the costs of all mappings by the way in which they use the array."""

    problem: LayerProblem
    costs: dict[Way, list[tuple[float, float]]]

    def search(self, objective: MappingObjective) -> ExactWay:
        """Return the native search that rules out ways."""
        return ExactWay(space_of(self.searched), OBJECTIVES[objective])

    @property
    def searched(self) -> LayerProblem:
        """Return the problem that the mapper searches, without memories of no use."""
        return self.problem.without_memories_of_no_use()

    def ways(self, search: ExactWay) -> Iterator[tuple[list[int], Way, float, float]]:
        """Yield each way to use the array, by number and by sizes, with its floors of energy and cycles."""
        ways = ways_of(self.searched)
        for row in product(*(range(len(along)) for along in ways)):
            if (floor := search.floor(row)) is not None:
                yield [*row], tuple(tuple(along[at]) for along, at in zip(ways, row, strict=True)), *floor

    def chains(
        self, search: ExactWay, row: list[int], objective: MappingObjective
    ) -> Iterator[tuple[list[float], float, LayerMapping]]:
        """Yield the bounds of the places, the value and the mapping of each chain of a way, without a limit."""
        batch = LayerCosts(self.searched)
        for bounds, nest in search.chains(row, ENOUGH):
            mapping = mapping_of(nest, self.searched)
            found = batch.of([mapping])
            energy, cycles = float(found.energy_pj[0]), float(found.cycles[0])
            if isfinite(energy):
                yield bounds, objective.of(energy, cycles) / objective.of(1.0, 1.0), mapping


def _odd(seed: int) -> LayerProblem:
    chance = Random(seed)
    machine = odd_machine(chance)
    layer = Layer.of_text(odd_layer(chance, machine))
    return LayerProblem(layer, accelerator_from_yaml(json.dumps(machine), "odd.yaml"))


@lru_cache(maxsize=4)
def _bench(kind: str, seed: int) -> Bench:
    """Return a problem and its costs; skip the test if mappings are too many or the machine is refused."""
    try:
        problem = {"toy": toy, "lean": lean_toy, "homed": homed_toy, "odd": _odd}[kind](seed)
        space_of(problem.without_memories_of_no_use())
    except InputError:
        pytest.skip("refused")
    mappings = list(islice(all_mappings(problem), MOST_MAPPINGS + 1))
    if len(mappings) > MOST_MAPPINGS:
        pytest.skip("too many mappings to look at each")
    found = LayerCosts(problem).of(mappings)
    costs: dict[Way, list[tuple[float, float]]] = defaultdict(list)
    for mapping, energy, cycles in zip(mappings, found.energy_pj.tolist(), found.cycles.tolist(), strict=True):
        if isfinite(energy):
            costs[_way_of(problem.accelerator, mapping)].append((energy, cycles))
    return Bench(problem, costs)


def _way_of(accelerator: Accelerator, mapping: LayerMapping) -> Way:
    sizes = {name: dict.fromkeys(LOOPS, 1) for name in units_of(accelerator)}
    for loop in mapping.nest:
        if loop.along is not None:
            sizes[loop.along][loop.dimension] *= loop.size
    return tuple(tuple(own.values()) for own in sizes.values())


SEEDS_OF_KINDS = {"odd": 40, "toy": 12, "lean": 8, "homed": 8}
MACHINES = [
    one for kind, seeds in SEEDS_OF_KINDS.items() for one in series([(kind, seed) for seed in range(seeds)], seeds // 2)
]
on_machines = pytest.mark.parametrize(("kind", "seed"), MACHINES)


@on_machines
def test_no_mapping_of_a_way_to_use_the_array_is_below_its_floor_of_energy(kind: str, seed: int) -> None:
    bench = _bench(kind, seed)
    for _, way, floor, _ in bench.ways(bench.search(MappingObjective.ENERGY)):
        assert all(floor <= energy * ROUNDED for energy, _ in bench.costs[way])


@on_machines
def test_no_mapping_of_a_way_to_use_the_array_is_below_its_floor_of_cycles(kind: str, seed: int) -> None:
    bench = _bench(kind, seed)
    for _, way, _, floor in bench.ways(bench.search(MappingObjective.LATENCY)):
        assert all(floor <= cycles * ROUNDED for _, cycles in bench.costs[way])


@on_machines
def test_no_mapping_of_a_way_to_use_the_array_takes_less_than_its_loops_in_time(kind: str, seed: int) -> None:
    """The mapper prunes a way by the cycles of its loops and the energy of the units before it computes the floor."""
    bench = _bench(kind, seed)
    layer = bench.searched.layer
    loops, of_units = prod(layer.bounds.values()), layer.macs * (array_of(bench.problem.accelerator).mac_energy_pj or 0)
    for way, costs in bench.costs.items():
        turns = loops / prod(size for own in way for size in own)
        assert all(turns <= cycles * ROUNDED and of_units <= energy * ROUNDED for energy, cycles in costs)


@on_machines
def test_no_criterion_rules_out_a_way_that_has_a_mapping_below_the_limit(kind: str, seed: int) -> None:
    """Criteria are tested alone: energy, and every pair of a stall (none, waiting, busy) with a preloading."""
    bench = _bench(kind, seed)
    for objective in MappingObjective:
        search = bench.search(objective)
        first = search.criteria[:1] if objective is MappingObjective.EDP else []
        for row, way, _, cycles in bench.ways(search):
            if not bench.costs[way]:
                continue
            least = min(objective.of(*one) for one in bench.costs[way]) / objective.of(1.0, 1.0)
            for criterion in search.criteria:
                criteria = [*first, criterion]
                if objective is not MappingObjective.EDP or not criterion.is_energy:
                    assert search.may_be_below(row, cycles, least * ROUNDED + 1e-6, criteria), criterion


@on_machines
@pytest.mark.parametrize("objective", MappingObjective)
def test_no_chain_below_a_place_of_the_descent_costs_less_than_its_bound(
    kind: str, seed: int, objective: MappingObjective
) -> None:
    """Labels, windows, and the least that may follow: at every place of every chain, with all criteria."""
    bench = _bench(kind, seed)
    search = bench.search(objective)
    for row, _, _, _ in bench.ways(search):
        for bounds, cost, mapping in bench.chains(search, row, objective):
            assert max(bounds) <= cost * ROUNDED, (bounds, cost, str(mapping))


@on_machines
@pytest.mark.parametrize("objective", MappingObjective)
def test_chains_and_orders_that_are_left_out_have_no_better_mapping(
    kind: str, seed: int, objective: MappingObjective
) -> None:
    """Without any limit, so that only the rules decide: which tiles fit, which orders make a difference."""
    bench = _bench(kind, seed)
    search = bench.search(objective)
    for row, way, _, _ in bench.ways(search):
        if bench.costs[way]:
            values = [cost for _, cost, _ in bench.chains(search, row, objective)]
            least = min(objective.of(*one) for one in bench.costs[way]) / objective.of(1.0, 1.0)
            assert values
            assert min(values) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("make", [toy, lean_toy, homed_toy])
@pytest.mark.parametrize("seed", series(range(60), 5))
def test_no_mapping_is_below_the_compulsory_cost(make: Callable[[int], LayerProblem], seed: int) -> None:
    problem = make(seed)
    least = least_values(problem, 500) or {}
    for objective, value in least.items():
        assert objective.of(*compulsory_cost(problem)) <= value * (1 + 1e-9)


def test_rows_that_a_stride_skips_are_not_compulsory() -> None:
    accelerator = load_accelerator("simba")
    strided, dense = Layer(c=8, p=9, q=9, stride=(2, 2)), Layer(c=8, p=9, q=9)
    assert strided.elements(INPUT) > dense.elements(INPUT)
    assert compulsory_cost(LayerProblem(strided, accelerator)) == compulsory_cost(LayerProblem(dense, accelerator))
