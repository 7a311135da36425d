"""What a mapping makes the elements of an array do, round by round: what moves when, how much, and to whom.

A round is what an element computes between two changes of the tile that its memories keep longest. The loops outside,
one iteration a round_number, decide what has to move before it. As in the authors' simulator of CoSA.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import MemoryLevel
from onchip.errors import InputError
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, Layer

PLACE: Final = "network on chip"


@dataclass(frozen=True, slots=True)
class TileFlow:
    """What moves into one memory, or out of it, every `period` rounds: `bits`.

    Of sums that begin in these rounds `revisited_bits` come back, since loops inside a round leave a tile and return.
    """

    period: int
    bits: int
    revisited_bits: int

    def bits_brought(self, is_continued: bool) -> int:
        """Of sums, before a round_number in which they are continued or begun."""
        return self.bits if is_continued else self.revisited_bits


@dataclass(frozen=True, slots=True)
class Movement:
    """How one operand moves: to each of `groups`, elements that need the same tile, and to the shared memory.

    An operand that passes by the shared memory has no flow there.
    """

    groups: tuple[tuple[int, ...], ...]
    element: TileFlow
    shared: TileFlow | None


@dataclass(frozen=True, slots=True)
class ElementRounds:
    """A mapping as the network sees it; `outer` are the sizes of the loops outside, innermost first."""

    elements: int
    outer: tuple[Loop, ...]
    cycles: int
    movements: dict[str, Movement]

    @property
    def count(self) -> int:
        """How many each element computes."""
        return prod(loop.size for loop in self.outer)

    def is_continued(self, round_number: int, period: int) -> bool:
        """Whether the sums that begin at a round have been begun before: a loop that adds to them has turned."""
        turned = 1
        for loop in self.outer:
            if turned >= period and loop.dimension not in RELEVANT[OUTPUT] and round_number // turned % loop.size:
                return True
            turned *= loop.size
        return False


def element_rounds(problem: LayerProblem, mapping: LayerMapping, *, has_refills: bool = True) -> ElementRounds:
    """Look at a mapping as at one of elements beside a shared memory.

    With `has_refills` tiles that come and go within a round are moved each time; without, what a round touches is moved
    once, as the authors of CoSA count, whether or not there is room for it.

    Raises InputError for a machine without such elements, and for a mapping whose tiles are not nested that way.
    """
    shared, own = _levels(problem)
    along = element_dimensions(problem)
    mapping, layer = mapping.without_loops_of_one(), mapping.layer(problem.layer)
    names = {level.memory.name for level in own}
    inside = max((_cut(operand, names, mapping) for operand in layer.operands), default=0)
    outer = tuple(loop for loop in mapping.nest[inside:] if loop.along is None)
    beside = tuple(loop for loop in mapping.nest if loop.along in along)
    digits = [tuple(reversed(one)) for one in product(*(range(loop.size) for loop in reversed(beside)))]
    movements: dict[str, Movement] = {}
    for operand in layer.operands:
        cut = _cut(operand, names, mapping)
        own_loops = [loop for loop in mapping.nest if loop.along is not None and loop.along not in along]
        held = _cut(operand, {shared.memory.name}, mapping)
        if not has_refills:
            cut, held = max(cut, inside), max(held, inside)
        element = _flow(layer, operand, mapping, cut, inside, own_loops)
        all_along = [loop for loop in mapping.nest if loop.along is not None]
        is_shared = any(kept.memory == shared.memory.name for kept in mapping.kept(operand))
        flow = _flow(layer, operand, mapping, max(held, cut), inside, all_along) if is_shared else None
        movements[operand] = Movement(_groups(operand, beside, digits), element, flow)
    cycles = prod(loop.size for loop in mapping.nest[:inside] if loop.along is None)
    return ElementRounds(len(digits), outer, cycles, movements)


def element_dimensions(problem: LayerProblem) -> set[str]:
    """Return the dimensions of the array along which elements lie: those that no memory below the shared one serves.

    Raises InputError for a machine without such elements.
    """
    shared, own = _levels(problem)
    array = problem.accelerator.array
    sizes = set(array.sizes) if array is not None else set()
    return sizes.difference(*(level.serves or () for level in own)) & set(shared.serves or sizes)


def _flow(
    layer: Layer, operand: str, mapping: LayerMapping, cut: int, inside: int, side_by_side: list[Loop]
) -> TileFlow:
    """Of the tile that the first `cut` loops span: it is moved anew whenever a related loop farther out turns."""
    tile = _bits(layer, operand, [*(loop for loop in mapping.nest[:cut] if loop.along is None), *side_by_side])
    turning = [loop for loop in mapping.nest[cut:] if loop.along is None]
    first = 0
    while first < len(turning) and turning[first].dimension not in RELEVANT[operand]:
        first += 1
    in_round = len([loop for loop in mapping.nest[cut : max(cut, inside)] if loop.along is None])
    if first >= in_round:
        below = [loop for loop in mapping.nest[inside:cut] if loop.along is None]
        return TileFlow(prod(loop.size for loop in (*below, *turning[in_round:first])), tile, 0)
    again = turning[first:in_round]
    moved = prod(loop.size for loop in again)
    different = prod(loop.size for loop in again if loop.dimension in RELEVANT[operand])
    return TileFlow(1, tile * moved, tile * (moved - different))


def _levels(problem: LayerProblem) -> tuple[MemoryLevel, tuple[MemoryLevel, ...]]:
    """The memory that all elements share, and those below it."""
    levels, array = problem.accelerator.levels, problem.accelerator.array
    addressed = {level.memory.name for level in problem.accelerator.addressed}
    own = tuple(level for level in levels if level.memory.name not in addressed)
    if array is None or not own or len(own) + 1 != len(levels) or levels[-1].memory.name not in addressed:
        what = f"accelerator {problem.accelerator.name!r} has no elements with memories of their own"
        raise InputError(what, place=PLACE, expected="one shared memory above all others, as of simba")
    return levels[-1], own


def _cut(operand: str, memories: set[str], mapping: LayerMapping) -> int:
    """How many loops a tile in the outermost of some memories spans, up to the last that leads to other elements."""
    most = max((kept.loops for kept in mapping.kept(operand) if kept.memory in memories), default=0)
    related = (index for index in range(most) if mapping.nest[index].dimension in RELEVANT[operand])
    return max((index + 1 for index in related if mapping.nest[index].along is None), default=0)


def _groups(operand: str, beside: tuple[Loop, ...], digits: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for element, own in enumerate(digits):
        related = zip(beside, own, strict=True)
        key = tuple(digit for loop, digit in related if loop.dimension in RELEVANT[operand])
        groups.setdefault(key, []).append(element)
    return tuple(map(tuple, groups.values()))


def _bits(layer: Layer, operand: str, loops: list[Loop]) -> int:
    """Of the tile that these loops span; sums move with the bits of sums in the making."""
    sizes = {name: prod(loop.size for loop in loops if loop.dimension == name) for name in RELEVANT[operand]}
    bits = layer.partial_bits if operand == OUTPUT else layer.bits(operand)
    if operand != INPUT:
        return bits * prod(sizes.values())
    spans = [min(axis.span(sizes[axis.output_loop], sizes[axis.filter_loop]), axis.size) for axis in layer.axes]
    return bits * prod((*(sizes[name] for name in RELEVANT[INPUT] if name in "NCG"), *spans))
