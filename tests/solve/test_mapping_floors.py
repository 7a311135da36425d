"""Every floor and rule of the exact mapper by itself: no completion of what it rules out is better.

Completions are all mappings of the mapspace as `oracles.mapspace` lists them, costed by the cost model. The mapper's
compiled part is asked for one floor, one criterion, one bound at a time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import isfinite
from random import Random

import numpy as np
import pytest

from adversary.levels.map_cases import random_layer as odd_layer
from adversary.levels.map_cases import random_machine as odd_machine
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.cost.layer.batch import LayerCosts
from onchip.cost.layer.tables import Integers
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.layer import LOOPS, Layer
from onchip.solve.mapping.exact import kernel
from onchip.solve.mapping.exact.chains import mapping_of
from onchip.solve.mapping.exact.compiled import ENERGY
from onchip.solve.mapping.exact.descent import FINISHED, LEAF
from onchip.solve.mapping.exact.exact import OBJECTIVES, ExactMapper
from onchip.solve.mapping.exact.room import room_of
from onchip.solve.mapping.exact.tables import tables_of
from onchip.solve.mapping.exact.work import work_of
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Run
from oracles.mapspace import all_mappings, homed_toy, lean_toy, toy, units_of

MOST_MAPPINGS = 1200
ENOUGH = 1e30
ROUNDED = 1 + 1e-9
Way = tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class Bench:
    """A mapper ready to be asked, and what all mappings with each way to use the array cost."""

    problem: LayerProblem
    costs: dict[Way, list[tuple[float, float]]]

    def mapper(self, objective: MappingObjective) -> ExactMapper:
        """With its tables made, as `solve` makes them."""
        mapper = ExactMapper(self.problem, objective, Run())
        tables = tables_of(mapper.problem)
        mapper._tables, mapper._costs = tables, LayerCosts(mapper.problem)
        mapper._criteria = mapper._list_criteria()
        mapper._work = work_of(tables, mapper._criteria.shape[0])
        mapper._room = room_of(tables, mapper._work.volume.size, mapper._work.port, mapper._criteria.shape[0])
        mapper._used, mapper._value = mapper._criteria.copy(), np.zeros(mapper._criteria.shape[0])
        return mapper

    def ways(self, mapper: ExactMapper) -> Iterator[tuple[Integers, Way, float, float]]:
        """Each way to use the array, as rows of the tables and as sizes, with its floors of energy and cycles."""
        chosen, energy, cycles = _floors(mapper)
        for row, floor, least in zip(chosen, energy, cycles, strict=True):
            yield row, tuple(tuple(mapper._tables.sides.sizes[one].tolist()) for one in row), floor, least


def _floors(mapper: ExactMapper) -> tuple[Integers, list[float], list[float]]:
    tables, most = mapper._tables, 5000
    chosen = np.zeros((most, tables.sides.first.size - 1), np.int64)
    energy, cycles = np.zeros(most), np.zeros(most)
    count = kernel.floors(
        tables.space, tables.machine, tables.shape, tables.sides, mapper._work, mapper._sums_are_linear(), True,
        tables.sides.first[:-1].copy(), chosen, energy, cycles,
    )  # fmt: skip
    return chosen[:count], energy[:count].tolist(), cycles[:count].tolist()


def _odd(seed: int) -> LayerProblem:
    chance = Random(seed)
    machine = odd_machine(chance)
    layer = Layer.of_text(odd_layer(chance, machine))
    return LayerProblem(layer, accelerator_from_yaml(json.dumps(machine), "odd.yaml"))


@lru_cache(maxsize=4)
def _bench(kind: str, seed: int) -> Bench:
    """Skips what has too many mappings, or a machine that is refused."""
    try:
        problem = {"toy": toy, "lean": lean_toy, "homed": homed_toy, "odd": _odd}[kind](seed)
        tables_of(problem.without_memories_of_no_use())
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


MACHINES = [*(("odd", seed) for seed in range(40)), *(("toy", seed) for seed in range(12))]
MACHINES += [*(("lean", seed) for seed in range(8)), *(("homed", seed) for seed in range(8))]
on_machines = pytest.mark.parametrize(("kind", "seed"), MACHINES)


@on_machines
def test_no_mapping_of_a_way_to_use_the_array_is_below_its_floor_of_energy(kind: str, seed: int) -> None:
    bench = _bench(kind, seed)
    for _, way, floor, _ in bench.ways(bench.mapper(MappingObjective.ENERGY)):
        assert all(floor <= energy * ROUNDED for energy, _ in bench.costs[way])


@on_machines
def test_no_mapping_of_a_way_to_use_the_array_is_below_its_floor_of_cycles(kind: str, seed: int) -> None:
    bench = _bench(kind, seed)
    for _, way, _, floor in bench.ways(bench.mapper(MappingObjective.LATENCY)):
        assert all(floor <= cycles * ROUNDED for _, cycles in bench.costs[way])


@on_machines
def test_no_criterion_rules_out_a_way_that_has_a_mapping_below_the_limit(kind: str, seed: int) -> None:
    """Each criterion alone: energy, and every pair of a stall (none, waiting, busy) with a preloading."""
    bench = _bench(kind, seed)
    for objective in MappingObjective:
        mapper = bench.mapper(objective)
        is_product = objective is MappingObjective.EDP
        for row, way, _, cycles in bench.ways(mapper):
            if not bench.costs[way]:
                continue
            least = min(objective.of(*one) for one in bench.costs[way]) / objective.of(1.0, 1.0)
            for criterion in mapper._criteria:
                energy = mapper._criteria[:1] if is_product and criterion[0] != ENERGY else mapper._criteria[:0]
                criteria = np.concatenate([energy, criterion[None]])
                assert _may_be_below(mapper, row, cycles, criteria, least * ROUNDED + 1e-6), criterion


def _may_be_below(mapper: ExactMapper, row: Integers, cycles: float, criteria: Integers, limit: float) -> bool:
    tables, stop = mapper._tables, np.zeros(1, np.bool_)
    if criteria.shape[0] == 1 and criteria[0, 0] == ENERGY and mapper.objective is MappingObjective.EDP:
        return True
    following = kernel.next_below(
        tables.space, tables.machine, tables.shape, tables.sides, mapper._work, mapper._patterns, row[None].copy(),
        np.zeros(1), np.array([cycles]), 0, limit, criteria.copy(), stop,
    )  # fmt: skip
    return following == 0


@on_machines
@pytest.mark.parametrize("objective", MappingObjective)
def test_no_chain_below_a_place_of_the_descent_costs_less_than_its_bound(
    kind: str, seed: int, objective: MappingObjective
) -> None:
    """Labels, windows, and the least that may follow: at every place of every chain, with all criteria."""
    bench = _bench(kind, seed)
    mapper = bench.mapper(objective)
    for row, _, _, _ in bench.ways(mapper):
        for bounds, mapping in _leaves(mapper, row, objective):
            (energy,), (cycles,) = (part.tolist() for part in _cost(mapper, mapping))
            if isfinite(energy):
                cost = objective.of(energy, cycles) / objective.of(1.0, 1.0)
                assert max(bounds) <= cost * ROUNDED, (bounds, cost, str(mapping))


@on_machines
@pytest.mark.parametrize("objective", MappingObjective)
def test_chains_and_orders_that_are_left_out_have_no_better_mapping(
    kind: str, seed: int, objective: MappingObjective
) -> None:
    """Without any limit, so that only the rules decide: which tiles fit, which orders make a difference."""
    bench = _bench(kind, seed)
    mapper = bench.mapper(objective)
    for row, way, _, _ in bench.ways(mapper):
        if bench.costs[way]:
            found = [_cost(mapper, mapping) for _, mapping in _leaves(mapper, row, objective)]
            values = [
                objective.of(float(energy[0]), float(cycles[0])) for energy, cycles in found if energy[0] < ENOUGH
            ]
            least = min(objective.of(*one) for one in bench.costs[way])
            assert values
            assert min(values) == pytest.approx(least, rel=1e-9)


def _leaves(
    mapper: ExactMapper, row: Integers, objective: MappingObjective
) -> Iterator[tuple[list[float], LayerMapping]]:
    """Every chain of a way that no limit stops, with the bounds of its places."""
    tables, work, room, stop = mapper._tables, mapper._work, mapper._room, np.zeros(1, np.bool_)
    for complete_from in range(1, mapper._patterns + 1):
        work.way[:] = row
        count = kernel.prepare(
            tables.space, tables.machine, tables.shape, tables.sides, work, room, complete_from, mapper._criteria,
            mapper._used, mapper._value, 0, ENOUGH,
        )  # fmt: skip
        status = LEAF if count else FINISHED
        while status == LEAF:
            status = kernel.next_chain(
                tables.space, tables.machine, work, room, mapper._used[:count], OBJECTIVES[objective], ENOUGH, 1 << 60,
                stop,
            )  # fmt: skip
            if status != LEAF:
                break
            bounds = [float(room.bound[depth, room.following[depth] - 1]) for depth in range(room.depth[0] + 1)]
            yield bounds, mapping_of(tables, work, room, mapper.problem)


def _cost(mapper: ExactMapper, mapping: LayerMapping) -> tuple[np.ndarray, np.ndarray]:
    found = mapper._costs.of([mapping])
    return found.energy_pj, found.cycles
