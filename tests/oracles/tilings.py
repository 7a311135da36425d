"""Brute force over a tiny network: all tilings, with and without recomputation, and the least peak of all orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, reduce
from itertools import combinations
from math import prod
from operator import or_

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Problem
from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.transform.slices.emission import counted_geometries, with_tiles


def every_tiling(problem: Problem, *, overlaps: bool = False) -> list[list[OperatorTiles | None]]:
    """Return, by operator, every way to cut it along one axis of its output, and None for the whole operator.

    With `overlaps`, an operator may also run for each tile of its only reader.
    """
    found: list[list[OperatorTiles | None]] = []
    graph = problem.graph
    for name, geometry in counted_geometries(problem, is_model=False).items():
        own: list[OperatorTiles | None] = [None]
        is_read_once = all(
            len(graph.readers[each]) == 1 and graph.tensor[each].role is Role.ACTIVATION
            for each in graph.operator[name].outputs
        )
        for at, axis in enumerate(geometry.axes if geometry else ()):
            if not axis.is_reduction:
                own += (OperatorTiles(at, (*inner, axis.size)) for inner in _subsets(axis.size) if inner)
                own += [OperatorTiles(at)] if overlaps and is_read_once else []
        found.append(own)
    return found


def has_few_tilings(problem: Problem, most: int) -> bool:
    """Return True if the network has at most so many tilings without overlaps, without listing them."""
    geometries = counted_geometries(problem, is_model=False).values()
    sizes = [[axis.size for axis in one.axes if not axis.is_reduction] if one else [] for one in geometries]
    return prod(1 + sum((1 << size - 1) - 1 for size in own) for own in sizes) <= most


def _subsets(size: int) -> Iterator[tuple[int, ...]]:
    for count in range(size):
        yield from combinations(range(1, size), count)


def graphs_in_tiles(problem: Problem, choices: Iterable[tuple[OperatorTiles | None, ...]]) -> Iterator[Graph]:
    """Yield the network in the tiles of each choice, by operator, unless a recomputed operator cannot run so."""
    geometries = counted_geometries(problem, is_model=False)
    names = [operator.name for operator in problem.graph.operators]
    for chosen in choices:
        tiles = {name: one for name, one in zip(names, chosen, strict=True) if one is not None}
        with suppress(GraphError):
            yield with_tiles(problem, tiles, is_model=False, geometries=geometries)


def least_peak(problem: Problem, graph: Graph) -> int:
    """Return the least peak over all orders, in bytes: tensors stay from their write or first read to their last read.

    A path over the sets of operators that have run; addresses are left out.
    """
    sizes = [tensor.size_bytes for tensor in graph.tensors if problem.counts(tensor)]
    number = {tensor.name: at for at, tensor in enumerate(filter(problem.counts, graph.tensors))}
    reads = [_mask(number, one.reads) for one in graph.operators]
    operands = [_mask(number, (*one.reads, *one.outputs)) for one in graph.operators]
    writers = {name: at for at, one in enumerate(graph.operators) for name in one.outputs}
    before = [_mask(writers, one.reads) for one in graph.operators]
    count = len(graph.operators)

    @cache
    def size_of(tensors: int) -> int:
        return sum(size for at, size in enumerate(sizes) if tensors >> at & 1)

    best = {0: 0}
    for _ in range(count):
        following: dict[int, int] = {}
        for ran, peak in best.items():
            left = [at for at in range(count) if not ran >> at & 1]
            needed = reduce(or_, (reads[at] for at in left), 0)
            held = reduce(or_, (operands[at] for at in range(count) if ran >> at & 1), 0) & needed
            for at in left:
                if before[at] & ~ran == 0:
                    new, most = ran | 1 << at, max(peak, size_of(held | operands[at]))
                    following[new] = min(most, following.get(new, most))
        best = following
    return best[(1 << count) - 1]


def _mask(number: dict[str, int], names: Iterable[str]) -> int:
    return sum({1 << number[name] for name in names if name in number})
