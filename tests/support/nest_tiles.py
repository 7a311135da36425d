"""Irregular layers cut into tiles, and the least costs of their mappings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import isfinite
from random import Random

import pytest

from onchip.answer.layer_mapping import MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.ir.tensor import Role, Tensor
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import least_values
from support.nests import random_accelerator, random_mapping


@dataclass(frozen=True)
class Tile:
    """The loop nest of a part of a layer's output, with the rows and columns of the input that it sees."""

    layer: Layer
    rows: range
    columns: range


def tiles_of(layer: Layer, random: Random) -> list[Tile]:
    """Return the layer cut at random, or whole if a tile would see only zeros."""
    tall, wide = (sorted({0, size, *random.sample(range(size + 1), 1)}) for size in (layer.p, layer.q))
    try:
        return [tile_of(layer, rows, columns) for rows, columns in product(pairwise(tall), pairwise(wide))]
    except InputError:
        return [tile_of(layer, (0, layer.p), (0, layer.q))]


def tile_of(layer: Layer, rows: tuple[int, int], columns: tuple[int, int]) -> Tile:
    sides, seen = [], []
    for axis, taps, (start, stop) in zip(layer.axes, (layer.r, layer.s), (rows, columns), strict=True):
        first = start * axis.stride - axis.padding
        last = (stop - 1) * axis.stride + (taps - 1) * axis.dilation - axis.padding
        sides.append((max(-first, 0), max(last - axis.size + 1, 0)))
        seen.append(range(max(first, 0), min(last + 1, axis.size)))
    (top, bottom), (left, right) = sides
    part = replace(layer, p=rows[1] - rows[0], q=columns[1] - columns[0], padding=(top, left, bottom, right))
    return Tile(part, *seen)


def machine_of(seed: int) -> Accelerator:
    """Return an irregular machine with little capacity."""
    random = Random(seed)
    machine = random_accelerator(random)
    levels = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=random.choice((16, 64, 1 << 20))))
        for one in machine.levels
    )
    return replace(machine, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))


def holding(machine: Accelerator, operand: Operand) -> list[str]:
    return [one.memory.name for one in machine.addressed if operand in one.memory.holds]


def costed(tile: Layer, machine: Accelerator, random: Random) -> Iterator[tuple[LayerProblem, LayerCost]]:
    """Yield problems with various homes, with the costs of the random mappings that fit."""
    for _ in range(20):
        homes = {operand: random.choice([None, *holding(machine, operand)]) for operand in Operand}
        weight = homes[Operand.WEIGHT] if tile.has_weight else None
        problem = LayerProblem(tile, machine, Homes(homes[Operand.INPUT], weight, homes[Operand.OUTPUT]))
        try:
            yield problem, layer_cost(problem, random_mapping(random, problem))
        except MappingError:
            continue


def energy_of(cost: LayerCost, operand: Operand) -> float:
    return sum(energy for (_, one), energy in cost.memory_energy_pj.items() if one == operand)


def least_bit_pj(machine: Accelerator, memory: str, *, is_written: bool) -> float:
    access = {one.memory.name: one.access for one in machine.levels}
    if machine.dram is not None:
        access[DRAM] = machine.dram.access
    found = access[memory]
    assert found is not None
    return (found.write_energy_pj if is_written else found.read_energy_pj) / found.access_bits


def whole_map(layer: Layer) -> Tensor:
    return Tensor.of_shape("y", (layer.n, layer.g * layer.k, layer.p, layer.q), 8, Role.ACTIVATION)


def ensure_best(problem: LayerProblem, most_mappings: int) -> None:
    """Fail unless the best mapping for each objective is found and proven; skip if there are too many mappings."""
    best = least_values(problem, most_mappings)
    if best is None:
        pytest.skip("too many mappings to look at each")
    for objective, value in best.items():
        result = solve_exactly(problem, objective, Run())
        if not isfinite(value):
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert result.answer is not None
        assert result.objective_value == pytest.approx(value, rel=1e-9, abs=1)
        assert verify_mapping(problem, result.answer) == ()
