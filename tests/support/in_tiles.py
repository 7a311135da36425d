"""Networks whose operators run in tiles, for tests of tiles."""

from __future__ import annotations

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Problem
from onchip.ir.graph import Graph
from onchip.model.capacity.infeasible_operator import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.scheduling.tiles.single_operators import tilings_of
from onchip.transform.slices.operators_in_tiles import counted_geometries, with_tiles


def tiled_to_fit(problem: Problem, *, is_model: bool = False) -> Graph:
    """Return the graph with single operators in tiles, until all fit or those that do not fit have finest tiles."""
    geometries = counted_geometries(problem, is_model=is_model)
    waiting = {name: tilings_of(geometry) for name, geometry in geometries.items() if geometry is not None}
    tiles: dict[str, OperatorTiles] = {}
    graph = problem.graph
    while True:
        tiled = Problem(graph, problem.memories, count=problem.count)
        misfits = (graph.operators[at] for at in operators_that_do_not_fit(IndexedProblem.of(tiled)))
        names = dict.fromkeys(one.name if one.tile is None else one.tile.operator for one in misfits)
        found = {name: more for name in names if (more := next(waiting.get(name, iter(())), None)) is not None}
        if not found:
            return graph
        tiles |= found
        graph = with_tiles(problem, tiles, is_model=is_model)
