"""Operators tiled one by one, in few tiles: for several scratchpads, for the network's own order, and below M_P."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Problem
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import operators_that_do_not_fit, with_updates_in_place
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.ops.slicing import Geometry
from onchip.transform.slices.emission import counted_geometries


def tiles_that_fit(
    problem: Problem, emitted: Callable[[Mapping[str, OperatorTiles]], Graph], *, is_model: bool
) -> dict[str, OperatorTiles] | None:
    """Return the tiles of single operators so that each tile fits, or None if none are found.

    `emitted` returns the problem's graph in tiles. An operator takes its tilings in turn, with twice as many tiles
    each time, until all of its tiles fit together with the bands that its neighbours' tiles make.
    """
    waiting = {name: tilings_of(one) for name, one in counted_geometries(problem, is_model=is_model).items() if one}
    found: dict[str, OperatorTiles] = {}
    while misfits := _misfits(replace(problem, graph=emitted(found))):
        for name in misfits:
            tiles = next(waiting.get(name, iter(())), None)
            if tiles is None:
                return None
            found[name] = tiles
    return found


def tilings_of(geometry: Geometry) -> Iterator[OperatorTiles]:
    """Yield tilings of an operator along each of its axes in turn, in 2, 4, 8 and more tiles, down to one element."""
    axes = [(at, axis.size) for at, axis in enumerate(geometry.axes) if not axis.is_reduction]
    count = 1
    while count < max((size for _, size in axes), default=0):
        count *= 2
        for at, size in axes:
            if size > count // 2:
                tile = -(-size // count)
                yield OperatorTiles(at, (*range(tile, size, tile), size))


def _misfits(problem: Problem) -> list[str]:
    """Return the operators with a tile that does not fit, with states that are updated in place counted once."""
    tiled = with_updates_in_place(problem) if problem.graph.states else problem
    operators = (tiled.graph.operators[at] for at in operators_that_do_not_fit(IndexedProblem.of(tiled)))
    return list(dict.fromkeys(one.name if one.tile is None else one.tile.operator for one in operators))
