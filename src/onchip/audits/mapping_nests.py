"""From a chain of tiles the mappings that it stands for: every order of the classes of loops between two cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations, product

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.audits.mapping_tiles import CHANGES
from onchip.ir.layer import LOOPS

Bounds = dict[str, int]


def mappings_of(
    problem: LayerProblem, beside: Sequence[Loop], tiles: Sequence[Bounds], *, is_timed: bool
) -> Iterator[LayerMapping]:
    """Yield the mappings whose memories' tiles, the units' first and DRAM's last, span these loops in time.

    Unless time counts, what of an order counts is which class is innermost.
    """
    parts = []
    for inner, outer in pairwise(tiles):
        loops = [Loop(loop, outer[loop] // inner[loop]) for loop in LOOPS if outer[loop] > inner[loop]]
        parts.append(list(_orders(loops, is_timed=is_timed)))
    for orders in product(*parts):
        yield _mapping(problem, beside, orders)


def _orders(loops: Sequence[Loop], *, is_timed: bool) -> Iterator[list[Loop]]:
    classes: dict[str, list[Loop]] = {}
    for loop in loops:
        same = "".join(operand for operand, changing in CHANGES.items() if loop.dimension not in changing)
        classes.setdefault(same, []).append(loop)
    every = list(permutations(classes.values()))
    firsts = {id(order[0]) if order else 0: order for order in reversed(every)}
    for order in every if is_timed else firsts.values():
        yield [loop for own in order for loop in own]


def _mapping(problem: LayerProblem, beside: Sequence[Loop], orders: Sequence[Sequence[Loop]]) -> LayerMapping:
    """Loops beside each other stand right above the last tile of the input that does not span them."""
    inputs = problem.keepers(Operand.INPUT)
    above: dict[Loop, int] = {}
    for loop in beside:
        passed = [
            number
            for number, level in enumerate(problem.levels)
            if level in inputs and level.serves is not None and loop.along not in level.serves
        ]
        above[loop] = max(passed, default=-1)
    nest = [loop for loop in beside if above[loop] < 0]
    cuts = []
    for number, order in enumerate(orders):
        nest.extend(order)
        cuts.append(len(nest))
        nest.extend(loop for loop in beside if above[loop] == number)
    kept = (
        tuple(
            Kept(level.memory.name, _settled(nest, cut, CHANGES[operand]))
            for level, cut in zip(problem.levels, cuts, strict=False)
            if operand in problem.layer.operands and level in problem.keepers(operand)
        )
        for operand in Operand
    )
    return LayerMapping(tuple(nest), *kept)


def _settled(nest: Sequence[Loop], cut: int, changing: str) -> int:
    """The cut, moved above the loops in time right above it along which the operand does not change."""
    found = cut
    for at in range(cut, len(nest)):
        if nest[at].along is None:
            if nest[at].dimension in changing:
                break
            found = at + 1
    return found
