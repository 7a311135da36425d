"""Every mapping of a tiny layer, one by one: each operand with its own cuts, loops in parts that divide them or not.

The oracle of what holds beyond the even mapspace. Every memory keeps what it holds.
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
from onchip.ir.layer import Layer
from onchip.model.layer.cost import LayerCost, layer_cost


def every_mapping(problem: LayerProblem) -> Iterator[LayerMapping]:
    """Legal or not."""
    array = problem.accelerator.array or ComputeArray(free=1)
    kept = [_memories(problem, operand) for operand in Operand]
    for parts in product(*(list(_parts(bound)) for bound in problem.layer.bounds.values())):
        own = [[(name, size) for size in sizes] for name, sizes in zip(problem.layer.bounds, parts, strict=True)]
        for nest in _woven([one for one in own if one]):
            places = [[None, *(name for name in array.sizes if loop in loops_along(array, name))] for loop, _ in nest]
            for along in product(*places):
                loops = tuple(Loop(loop, size, name) for (loop, size), name in zip(nest, along, strict=True))
                cuts = (combinations_with_replacement(range(len(loops) + 1), len(names)) for names in kept)
                for chosen in product(*cuts):
                    tiles = [tuple(map(Kept, names, own)) for names, own in zip(kept, chosen, strict=True)]
                    ragged = tuple(name for name, sizes in zip(problem.layer.bounds, parts, strict=True) if sizes)
                    yield LayerMapping(loops, *tiles, ragged=ragged)


def every_cost(problem: LayerProblem) -> Iterator[LayerCost]:
    """Of those that are legal."""
    for mapping in every_mapping(problem):
        try:
            yield layer_cost(problem, mapping)
        except MappingError:
            continue


def _memories(problem: LayerProblem, operand: Operand) -> list[str]:
    keepers = problem.keepers(operand) if operand in problem.layer.operands else ()
    return [level.memory.name for level in keepers]


def _parts(bound: int, inner: int = 1) -> Iterator[tuple[int, ...]]:
    """Sizes of a dimension's loops, innermost first, the outermost needed to its last iteration."""
    left = -(-bound // inner)
    if left == 1:
        yield ()
        return
    yield (left,)
    for size in range(2, left):
        yield from ((size, *rest) for rest in _parts(bound, inner * size))


def _woven(sequences: Sequence[Sequence[tuple[str, int]]]) -> Iterator[list[tuple[str, int]]]:
    """All orders that leave each dimension's loops as they are."""
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
