"""The mappings of a tiny layer, enumerated: level boundaries per operand, loops with perfect and imperfect factors.

The oracle for properties beyond the even map space, without memory bypass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product
from random import Random

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.layer import RELEVANT, Layer
from onchip.model.layer.cost import LayerCost, layer_cost


def every_mapping(problem: LayerProblem) -> Iterator[LayerMapping]:
    """Yield every mapping, legal or not."""
    for loops, ragged in _nests(problem):
        places = [range(len(loops) + 1)] * len(Operand)
        yield from _cut(problem, loops, ragged, places)


def best_mappings(problem: LayerProblem) -> Iterator[LayerMapping]:
    """Yield mappings that fit the array; every other mapping is dominated by one of these in all figures.

    A tile is extended over the temporal loops directly above along which its operand does not change: it has as many
    elements, and moves no more often.
    """
    array, bounds = problem.accelerator.array or ComputeArray(free=1), problem.layer.bounds
    for loops, ragged in _nests(problem):
        used = dict.fromkeys(array.sizes, 1)
        sizes = dict.fromkeys(bounds, 1)
        for loop in loops:
            sizes[loop.dimension] *= loop.size
            if loop.along is not None:
                used[loop.along] *= loop.size
        if all(size <= array.sizes[name] for name, size in used.items()):
            places = [
                [at for at, loop in enumerate(loops) if loop.along is not None or loop.dimension in RELEVANT[operand]]
                for operand in Operand
            ]
            short = tuple(name for name in ragged if sizes[name] != bounds[name])
            yield from _cut(problem, loops, short, [[*one, len(loops)] for one in places])


def _nests(problem: LayerProblem) -> Iterator[tuple[tuple[Loop, ...], tuple[str, ...]]]:
    """Yield all loops in all orders, and the dimensions that have any."""
    array = problem.accelerator.array or ComputeArray(free=1)
    for parts in product(*(list(_parts(bound)) for bound in problem.layer.bounds.values())):
        own = [[(name, size) for size in sizes] for name, sizes in zip(problem.layer.bounds, parts, strict=True)]
        ragged = tuple(name for name, sizes in zip(problem.layer.bounds, parts, strict=True) if sizes)
        for nest in _woven([one for one in own if one]):
            places = [[None, *(name for name in array.sizes if loop in loops_along(array, name))] for loop, _ in nest]
            for along in product(*places):
                yield tuple(Loop(loop, size, name) for (loop, size), name in zip(nest, along, strict=True)), ragged


def _cut(
    problem: LayerProblem, loops: tuple[Loop, ...], ragged: tuple[str, ...], places: Sequence[Sequence[int]]
) -> Iterator[LayerMapping]:
    """Yield the nest with every choice of the boundaries of each operand's tiles."""
    tiles = []
    for operand, own in zip(Operand, places, strict=True):
        names = _memories(problem, operand)
        cuts = combinations_with_replacement(own, len(names))
        tiles.append([tuple(map(Kept, names, chosen)) for chosen in cuts])
    for kept in product(*tiles):
        yield LayerMapping(loops, *kept, ragged=ragged)


def every_cost(problem: LayerProblem) -> Iterator[LayerCost]:
    """Yield the costs of the legal mappings."""
    for mapping in every_mapping(problem):
        try:
            yield layer_cost(problem, mapping)
        except MappingError:
            continue


def _memories(problem: LayerProblem, operand: Operand) -> list[str]:
    keepers = problem.keepers(operand) if operand in problem.layer.operands else ()
    return [level.memory.name for level in keepers]


def _parts(bound: int, inner: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield the sizes of a dimension's loops, innermost first; the outermost one is needed to its last iteration."""
    left = -(-bound // inner)
    if left == 1:
        yield ()
        return
    yield (left,)
    for size in range(2, left):
        yield from ((size, *rest) for rest in _parts(bound, inner * size))


def _woven(sequences: Sequence[Sequence[tuple[str, int]]]) -> Iterator[list[tuple[str, int]]]:
    """Yield all interleavings that keep the order of each dimension's loops."""
    if not sequences:
        yield []
        return
    for at, (first, *rest) in enumerate(sequences):
        others = [one for number, one in enumerate(sequences) if number != at]
        for woven in _woven([*others, *([rest] if rest else [])]):
            yield [first, *woven]


def tiny(seed: int) -> LayerProblem:
    """Return a layer with loops of up to 4 on a machine of one memory and two units."""
    random = Random(seed)
    port = Port(Direction.READ_WRITE, random.choice((4, 8, 32)))
    access = Access(8, random.choice((1.0, 3.0)), random.choice((1.0, 4.0)), random.choice((None, 4)))
    memory = Memory("buffer", random.choice((6, 8, 12, 64)))
    is_doubled = random.random() < 0.3
    buffer = MemoryLevel(memory, None, is_scratchpad=True, double_buffered=is_doubled, access=access, ports=(port,))
    array = ComputeArray({"unit": 2}, None, 0.5)
    dram = Dram(Access(8, 20.0, 25.0), (Port(Direction.READ_WRITE, random.choice((4, 16))),))
    long, short = random.choice(((3, 2), (4, 2)))
    layer = random.choice(
        (Layer(k=long, c=short), Layer(c=long, p=short), Layer(p=long, k=short), Layer(n=long, c=short))
    )
    machine = Accelerator("tiny", (memory,), (buffer,), None, array, dram)
    return LayerProblem(layer, machine)
