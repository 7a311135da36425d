"""Random questions about chains of lattice points, and the arguments of searches for them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS, RELEVANT
from onchip.mapping.chains.dimension import Dimension
from onchip.mapping.chains.lattice import Lattice
from onchip.mapping.prove import bounds
from onchip.mapping.prove.bounds import ChainsTogether
from onchip.mapping.prove.unrolled_ways import ADDING, Idleness, LoopKind, UnrolledWays
from oracles.chains import Row, Searched, Table
from support.ways import way_of


def random_search(seed: int) -> Searched:
    """Draw a question for `least_chain_below`; every fourth has four boundaries, and irrelevant components.

    Only single-buffered memories have transfers that are waited for one by one.
    """
    random = np.random.default_rng(seed)
    shape = [int(one) for one in random.integers(1, 4, 2)]
    operands = ([0, 0, 1] if seed % 2 else [0, 1, 2]) + [2] * (seed % 4 == 3)
    points = prod(shape)
    leads = random.integers(0, 2, (3, 2)).tolist()
    inside = [(random.random((side, side)) < 0.8) | np.eye(side, dtype=np.bool_) for side in shape]
    return Searched(
        shape,
        [(one * np.triu(np.ones_like(one))).astype(np.int64).ravel().tolist() for one in inside],
        leads,
        [random.integers(0, 4, side).astype(np.float64).tolist() for side in shape],
        [random.choice([0.0, 1.0, 2.0, 5.0, inf], side).tolist() for side in shape],
        random.choice([0.5, 1.0, 2.0], 2).tolist(),
        random.integers(0, 2, (3, 2)).tolist(),
        [np.cumprod(random.integers(1, 4, side)).astype(np.float64).tolist() for side in shape],
        [random.integers(0, 2, side).tolist() for side in shape],
        [7.0, 9.0],
        random.integers(0, 2, (2, len(operands))).tolist(),
        [random.integers(1, 4, side).astype(np.float64).tolist() for side in shape],
        [random.integers(1, 6, side).astype(np.float64).tolist() for side in shape],
        [(random.random(side) < 0.8).astype(np.int64).tolist() for side in shape],
        boundaries := [_random_boundary(random, operand, shape, leads[operand]) for operand in operands],
        [
            _random_criterion(random, points, [one[4] for one in boundaries], number)
            for number in range(6 if seed % 4 == 3 else 4)
        ],
        bool(seed % 3 == 0),
    )


def _random_boundary(
    random: np.random.Generator, operand: int, shape: list[int], leads: list[int]
) -> tuple[int, int, Table, list[Table], bool]:
    memory, bits = int(random.integers(2)), random.integers(1, 6, prod(shape)).astype(np.float64)
    comes = [_random_times(random, shape, leads) for _ in range(random.integers(3))]
    return operand, memory, bits, comes, bool(random.random() < 0.3)


def _random_criterion(random: np.random.Generator, points: int, have_room_for_two: Sequence[bool], number: int) -> Row:
    def table(most: int) -> Table:
        return random.integers(0, most if number < 4 else 1, points).astype(np.float64)

    def tables(none: float) -> list[Table | None]:
        return [None if random.random() < none else table(9) for _ in have_room_for_two]

    waits = [[(table(4), table(9))] if random.random() < 0.5 and not one else [] for one in have_room_for_two]
    port = [None, 0, 1][int(random.integers(3))]
    fixed, is_linear = float(random.integers(1, 5)), bool(random.integers(2))
    return fixed, tables(0.2), tables(0.3), tables(0.5), is_linear, waits, port


def _random_times(random: np.random.Generator, shape: list[int], leads: list[int]) -> Table:
    """Draw the number of arrivals of tiles: the farther out a point, the fewer."""
    found = np.ones(shape)
    for side, (length, is_leading) in enumerate(zip(shape, leads, strict=True)):
        along = np.sort(random.integers(1, 6, length))[::-1].astype(np.float64)
        found *= 1.0 if is_leading else np.expand_dims(along, tuple({*range(len(shape))} - {side}))
    return found.ravel()


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
    lattice = Lattice.of(way.bounds, way.units, most_cells // 4)
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


ENOUGH = float(1 << 60)


def asked_of(
    chains: ChainsTogether, monkeypatch: pytest.MonkeyPatch, objective: MappingObjective = MappingObjective.EDP
) -> Searched | None:
    """Return the arguments of the search, or None if there is nothing to place."""
    asked = list[Searched]()

    def note(shape: list[int], *rows: object) -> tuple[float, bool, int, list[int], list[list[int]]]:
        asked.append(Searched(shape, *(_of_each_point(shape, row) for row in rows[:16])))  # type: ignore[arg-type]
        return 0.0, True, 0, [], []

    monkeypatch.setattr(bounds, "least_chain_below", note)
    chains.least(objective, ENOUGH)
    return asked[0] if asked else None


def _of_each_point(shape: list[int], row: object) -> object:
    """Return tables flat, broadcast along dimensions in which they are constant."""
    if isinstance(row, np.ndarray):
        return np.broadcast_to(row, shape).ravel()
    return type(row)(_of_each_point(shape, one) for one in row) if isinstance(row, list | tuple) else row
