"""Operators in given tiles along one axis each: the tiling that a plan file records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Problem
from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry
from onchip.transform.slices.emission import emitted
from onchip.transform.slices.tiles_along_axis import TilesAlongAxis


def counted_geometries(problem: Problem, *, is_model: bool) -> dict[str, Geometry | None]:
    """Return the geometry of each operator by name, with the operands that plans count; None if it cannot be cut."""
    graph, counts = problem.graph, problem.counts
    geometries = {each.name: geometry_of(each, graph, is_model=is_model) for each in graph.operators}
    return {
        name: geometry
        and replace(geometry, reads=tuple(read for read in geometry.reads if counts(graph.tensor[read.tensor])))
        for name, geometry in geometries.items()
    }


def with_tiles(problem: Problem, tiles: Mapping[str, OperatorTiles], *, is_model: bool) -> Graph:
    """Return the graph with these operators, by name, in tiles; raises GraphError for tiles that they cannot have."""
    graph = problem.graph
    geometries = counted_geometries(problem, is_model=is_model)
    for name, one in tiles.items():
        place, expected = f"tiles of {name!r}", "those of a plan for this network"
        if name not in graph.operator:
            raise GraphError("there is no such operator", place=place, expected=expected)
        geometry = geometries[name]
        if geometry is None or not one.axis < len(geometry.axes) or geometry.axes[one.axis].is_reduction:
            raise GraphError(f"the operator is not cut along axis {one.axis}", place=place, expected=expected)
        if one.ends[-1] != geometry.axes[one.axis].size:
            what = f"the last tile ends at {one.ends[-1]}"
            raise GraphError(what, place=place, expected=f"{geometry.axes[one.axis].size}, the axis's size")
    cut = {
        name: TilesAlongAxis(geometry, tiles[name].axis, tiles[name].ends)
        for name, geometry in geometries.items()
        if geometry is not None and name in tiles
    }
    return emitted(problem, cut)
