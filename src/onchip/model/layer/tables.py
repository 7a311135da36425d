"""The cost model's inputs and outputs as flat arrays, shared with the compiled versions.

Operands are input, weight, output; levels are in the accelerator's order, then DRAM; loops are in LOOPS order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import LayerMapping, MappingError, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, WEIGHT, Layer
from onchip.model.layer.cost import access_of
from onchip.model.layer.limits import array_of
from onchip.model.layer.ports import port_for

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

OPERANDS: Final = (INPUT, WEIGHT, OUTPUT)
MOVES: Final = tuple(Move)


class Machine(NamedTuple):
    """An accelerator as arrays; energies are per `shortest` bits, `port` is -1 for memories without ports."""

    serves: Flags  # level, dimension of the array
    units: Integers
    capacity_bits: Integers  # for tiles and for operands that reside whole
    double_buffered: Flags
    shortest: Integers
    read_pj: Reals
    write_pj: Reals
    port: Integers  # level, move
    bits_per_cycle: Integers
    home: Integers  # by operand, the level where it resides whole; DRAM follows the last


class Chosen(NamedTuple):
    """Mappings, a row each; loops innermost first, a `cut` counts temporal loops (-1: the level is skipped)."""

    temporal_count: Integers
    temporal_loop: Integers
    temporal_size: Integers
    spatial_count: Integers
    spatial_loop: Integers
    spatial_size: Integers
    spatial_along: Integers
    spatial_at: Integers  # number of temporal loops inside it
    cut: Integers  # row, operand, level


class CostStatus(IntEnum):
    """The cost status of a mapping; INTERLEAVED input tiles of scattered rows are not costed here."""

    COSTED = 0
    INTERLEAVED = 1
    OVER_CAPACITY = 2
    OVER_ARRAY = 3


class Costs(NamedTuple):
    """Costs by row; `status` is a CostStatus."""

    energy_pj: Reals
    cycles: Integers
    status: Integers


def machine_of(problem: LayerProblem) -> Machine:
    """Return the accelerator as arrays; raises AcceleratorError if its description is incomplete."""
    accelerator = problem.accelerator
    sizes = array_of(accelerator).sizes
    levels = problem.levels
    names = [*(level.memory.name for level in levels), "dram"]
    accesses = [access_of(accelerator, name) for name in names]
    shortest = [access.shortest_access_bits or access.access_bits for access in accesses]
    shares = [least / access.access_bits for least, access in zip(shortest, accesses, strict=True)]
    ports = [*(level.ports for level in levels), accelerator.dram.ports if accelerator.dram else ()]
    bits_per_cycle = [one.bits_per_cycle for own in ports for one in own] or [1]
    before = np.cumsum([0, *(len(own) for own in ports)])
    port = [
        [int(first) + port_for(name, own, move) if own else -1 for move in MOVES]
        for name, own, first in zip(names, ports, before[:-1], strict=True)
    ]
    return Machine(
        np.array(
            [*([one.serves is None or name in one.serves for name in sizes] for one in levels), [True] * len(sizes)]
        ),
        np.array(list(sizes.values())),
        np.array([problem.usable_bits(level.memory.name) for level in levels]),
        np.array([level.double_buffered for level in levels]),
        np.array(shortest),
        np.array([access.read_energy_pj * share for access, share in zip(accesses, shares, strict=True)]),
        np.array([access.write_energy_pj * share for access, share in zip(accesses, shares, strict=True)]),
        np.array(port),
        np.array(bits_per_cycle),
        np.array([names.index(problem.home(operand)) for operand in OPERANDS]),
    )


def chosen_of(layer: Layer, problem: LayerProblem, mappings: Sequence[LayerMapping]) -> Chosen:
    """Return mappings with exactly the layer's bounds and checked names; raises MappingError for other bounds."""
    names = [level.memory.name for level in problem.levels]
    along = list(array_of(problem.accelerator).sizes)
    loops = max((len(mapping.nest) for mapping in mappings), default=0)
    rows = empty_chosen(len(mappings), loops, len(names))
    for row, mapping in enumerate(mappings):
        if mapping.bounds != layer.bounds:
            raise MappingError("its loops are not the layer's", place=f"mapping {row}", expected=f"{layer.bounds}")
        temporal, spatial = 0, 0
        inside = [0]
        for loop in mapping.nest:
            if loop.along is None and loop.size > 1:
                rows.temporal_loop[row, temporal] = LOOPS.index(loop.dimension)
                rows.temporal_size[row, temporal] = loop.size
                temporal += 1
            elif loop.along is not None and loop.size > 1:
                rows.spatial_loop[row, spatial] = LOOPS.index(loop.dimension)
                rows.spatial_size[row, spatial] = loop.size
                rows.spatial_along[row, spatial] = along.index(loop.along)
                rows.spatial_at[row, spatial] = temporal
                spatial += 1
            inside.append(temporal)
        rows.temporal_count[row], rows.spatial_count[row] = temporal, spatial
        for index, operand in enumerate(Operand):
            for kept in mapping.kept(operand):
                rows.cut[row, index, names.index(kept.memory)] = inside[kept.loops]
    return rows


def empty_chosen(rows: int, loops: int, levels: int) -> Chosen:
    """Return empty rows for mappings of at most `loops` loops; no level keeps an operand."""

    def zeros() -> Integers:
        return np.zeros((rows, max(loops, 1)), np.int64)

    return Chosen(
        np.zeros(rows, np.int64), zeros(), zeros(),
        np.zeros(rows, np.int64), zeros(), zeros(), zeros(), zeros(),
        np.full((rows, 3, levels), -1, np.int64),
    )  # fmt: skip
