"""The lattice points of a mapping's tiles, and the case that its spatial mapping belongs to."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS, RELEVANT
from onchip.mapping.chains.dimension import Dimension
from onchip.mapping.chains.lattice import Lattice
from onchip.mapping.prove.unrolled_ways import ADDING, Idleness, LoopKind, UnrolledWays
from support.ways import way_of


@dataclass(frozen=True)
class OwnPlace:
    """The number of indices inside a tile, and the number of turns, by dimension."""

    met: tuple[int, ...]
    turns: tuple[int, ...]


def places_of(problem: LayerProblem, mapping: LayerMapping) -> Iterator[OwnPlace]:
    """Yield the point of each tile, by operand and memory.

    The loops directly above its boundary along which the operand does not change are inside.
    """
    for operand in map(Operand, problem.layer.operands):
        for kept in getattr(mapping, operand.value):
            inside = kept.loops
            for loop in mapping.nest[kept.loops :]:
                if loop.along is None and loop.size > 1 and loop.dimension in RELEVANT[operand]:
                    break
                inside += 1
            yield OwnPlace(_met(problem, mapping, inside), _turns_inside(problem, mapping, inside))


def kind_of(problem: LayerProblem, mapping: LayerMapping) -> UnrolledWays:
    """Return the last of `kinds_of`, also distinguished by the boundaries where sums are accumulated."""
    *_, found = kinds_of(problem, mapping)
    adds_on = _adds_on(problem, mapping, found)
    return next(one for one in found.kinds_of_sums() if one.adds_on == adds_on)


def _adds_on(problem: LayerProblem, mapping: LayerMapping, way: UnrolledWays) -> tuple[bool, ...]:
    """Return, by boundary above a memory of outputs except the last, True if reduction loops are left outside."""
    memories = way.memories(Operand.OUTPUT)
    places = list(places_of(problem, mapping))[-len(memories) + 1 :] if len(memories) > 1 else []
    found = []
    for place, above in zip(places[:-1], memories[1:], strict=False):
        beside = way.served(above).most_apart
        found.append(any(place.met[at] < way.bounds[at] or beside[at] > 1 for at in ADDING))
    return tuple(found)


def kinds_of(problem: LayerProblem, mapping: LayerMapping) -> Iterator[UnrolledWays]:
    """Yield its spatial mapping as successively smaller cases: by loops that leave units idle, and by their turns."""
    found = way_of(problem, mapping)
    own = [_idle_and_turns(problem, mapping, at, units.most) for at, units in enumerate(found.units)]
    yield found
    while kinds := found.told_apart(further=True):
        (found,) = (one for one in kinds if all(_is_of(*each) for each in zip(own, one.kinds, strict=True)))
        yield found


def _is_of(own: tuple[Idleness, int], kind: LoopKind) -> bool:
    idle, turns = own
    if kind.idle is Idleness.UNKNOWN:
        return True
    return idle is kind.idle and (kind.turns is None or kind.turns[0] <= turns <= kind.turns[1])


def _idle_and_turns(problem: LayerProblem, mapping: LayerMapping, at: int, units: int) -> tuple[Idleness, int]:
    """Return the idleness of a loop over units in some place, and the number of turns executed."""
    name, bound = LOOPS[at], problem.layer.bounds[LOOPS[at]]
    turns = _led_to(mapping, name, bound, {at for at, loop in enumerate(mapping.nest) if loop.along is None})
    for inside in range(len(mapping.nest) + 1):
        in_time = (one.size for one in mapping.nest[:inside] if one.along is None and one.dimension == name)
        if _met(problem, mapping, inside)[at] not in (bound, units * prod(in_time)):
            return Idleness.SOME, turns
    return Idleness.NONE, turns


def cell_of(lattice: Lattice, place: OwnPlace) -> tuple[int, ...]:
    """Return the cell of a lattice of its spatial mapping that contains the point."""
    return tuple(map(_cell_of, lattice.dimensions, place.met, place.turns))


def _cell_of(dimension: Dimension, met: int, turns: int) -> int:
    """Return the cell with as many indices, and of several the one with as many turns, if these are known."""
    cells = np.nonzero((dimension.first <= met) & (met <= dimension.last))[0]
    return next((int(at) for at in cells if dimension.known_turns[at] == turns), int(cells[0]))


def own_cells(way: UnrolledWays, places: Sequence[OwnPlace], most_cells: int = 4000) -> Lattice:
    """Return a lattice that is as fine as possible around a mapping's points."""
    lattice = Lattice.of(way.bounds, way.units, most_cells // 4, 0)
    for _ in range(4):
        cells = [cell_of(lattice, place) for place in places]
        left = [[any(one[side] == at for one in cells) for at in range(own)] for side, own in enumerate(lattice.shape)]
        lattice = lattice.within(way.units, left, most_cells)
    return lattice


def _met(problem: LayerProblem, mapping: LayerMapping, inside: int) -> tuple[int, ...]:
    """Return the number of indices per dimension reached by the spatial and the innermost loops."""
    chosen = {at for at, loop in enumerate(mapping.nest) if loop.along is not None or at < inside}
    return tuple(_led_to(mapping, name, bound, chosen) for name, bound in problem.layer.bounds.items())


def _turns_inside(problem: LayerProblem, mapping: LayerMapping, inside: int) -> tuple[int, ...]:
    """Return the number of indices per dimension reached by the innermost temporal loops."""
    in_time = {at for at, loop in enumerate(mapping.nest[:inside]) if loop.along is None}
    return tuple(_led_to(mapping, name, bound, in_time) for name, bound in problem.layer.bounds.items())


def _led_to(mapping: LayerMapping, name: str, bound: int, chosen: Container[int]) -> int:
    step, sums = 1, [0]
    for at, loop in enumerate(mapping.nest):
        if loop.dimension == name:
            if at in chosen:
                sums = [one + step * number for one in sums for number in range(loop.size)]
            step *= loop.size
    return sum(one < bound for one in sums)
