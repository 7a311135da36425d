"""Random tilings of a layer over the levels of an accelerator, and their mappings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from onchip.answer.layer_mapping import LayerMapping, Loop, even, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.unrolling import prime_counts


@dataclass(frozen=True, slots=True)
class LevelSizes:
    """The loop sizes at each level, DRAM last, and the spatial loops at each level."""

    temporal: tuple[dict[str, int], ...]
    beside: tuple[tuple[Loop, ...], ...]

    def mapping(self, problem: LayerProblem, orders: Sequence[Sequence[str]]) -> LayerMapping:
        """Return the even mapping with these loop orders, innermost first, for each level."""
        parts = [
            [*beside, *(Loop(loop, sizes[loop]) for loop in order if sizes.get(loop, 1) > 1)]
            for sizes, beside, order in zip(self.temporal, self.beside, orders, strict=True)
        ]
        holders = {
            str(operand): [one.memory.name for one in problem.keepers(operand)]
            for operand in Operand
            if operand in problem.layer.operands
        }
        names = [one.memory.name for one in problem.levels]
        return even(list(zip(names, parts[:-1], strict=True)), holders, parts[-1])


def random_tiling(random: Random, problem: LayerProblem) -> LevelSizes:
    """Return a random tiling: each prime factor at any level, or along any array dimension that can take it."""
    array = array_of(problem.accelerator)
    left, beside = dict(array.sizes), dict[tuple[str, str], int]()
    temporal: list[dict[str, int]] = [{} for _ in range(len(problem.levels) + 1)]
    for loop, bound in problem.layer.bounds.items():
        for prime in (prime for prime, count in prime_counts(bound).items() for _ in range(count)):
            fitting = [name for name in left if loop in loops_along(array, name) and prime <= left[name]]
            place = random.randrange(len(fitting) + len(temporal))
            if place < len(fitting):
                name = fitting[place]
                left[name] //= prime
                beside[name, loop] = beside.get((name, loop), 1) * prime
            else:
                sizes = temporal[place - len(fitting)]
                sizes[loop] = sizes.get(loop, 1) * prime
    standing: list[list[Loop]] = [[] for _ in temporal]
    for (name, loop), size in beside.items():
        standing[_level_of(problem, name)].append(Loop(loop, size, name))
    return LevelSizes(tuple(temporal), tuple(map(tuple, standing)))


def random_orders(random: Random, levels: int) -> list[list[str]]:
    """Return a random order of the loops at each level."""
    return [random.sample(LOOPS, len(LOOPS)) for _ in range(levels)]


def _level_of(problem: LayerProblem, along: str) -> int:
    """Return the level below the first memory of inputs that serves a dimension, DRAM's if there is none."""
    start = 0
    for number, (level, kept) in enumerate(zip(problem.levels, problem.kept, strict=True)):
        if Operand.INPUT in kept:
            if level.serves is None or along in level.serves:
                return start
            start = number + 1
    return start
