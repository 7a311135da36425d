"""Brute force over a tiny network: all its tilings, and the least peak over all orders of the tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, reduce
from itertools import combinations, product
from operator import or_

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Problem
from onchip.ir.graph import Graph
from onchip.transform.slices.emission import counted_geometries, with_tiles


def every_tiling(problem: Problem, *, is_model: bool = False) -> list[list[OperatorTiles | None]]:
    """Return, by operator, every way to cut it along one axis of its output, and None for the whole operator."""
    found: list[list[OperatorTiles | None]] = []
    for geometry in counted_geometries(problem, is_model=is_model).values():
        own: list[OperatorTiles | None] = [None]
        for at, axis in enumerate(geometry.axes if geometry else ()):
            if not axis.is_reduction:
                own += (OperatorTiles(at, (*inner, axis.size)) for inner in _subsets(axis.size) if inner)
        found.append(own)
    return found


def _subsets(size: int) -> Iterator[tuple[int, ...]]:
    for count in range(size):
        yield from combinations(range(1, size), count)


def in_tiles(problem: Problem, chosen: tuple[OperatorTiles | None, ...], *, is_model: bool = False) -> Graph:
    """Return the network in the chosen tiles, in the order of `every_tiling`."""
    names = (operator.name for operator in problem.graph.operators)
    tiles = {name: one for name, one in zip(names, chosen, strict=True) if one is not None}
    return with_tiles(problem, tiles, is_model=is_model)


def all_graphs(problem: Problem) -> Iterator[Graph]:
    """Yield the network in every tiling."""
    for chosen in product(*every_tiling(problem)):
        yield in_tiles(problem, chosen)


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
