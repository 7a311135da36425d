"""A mapping as loops of C: those in registers, those that add to the same sums, and those around them.

Inner loops of a dimension are the less significant digits of its index, as in the mapping. Lanes of a vector are
neighbours: the loop that makes them becomes the innermost of its dimension, which changes which elements a tile of
weights or outputs has, and not how many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Layer

GREATEST_LANES: Final = 16
GREATEST_SUMS: Final = 32
"""Vectors of sums that a compiler is asked to keep in registers."""
GREATEST_UNROLLED: Final = 512
"""Multiply-accumulates of vectors that are written out one after the other."""
LEAST_USES: Final = 8
"""Multiply-accumulates for each element of a tile where it pays to copy it first."""
LEAST_USES_OF_FLOAT_INPUTS: Final = 64
"""The same of inputs of float32: single elements are read, one after the other in each row, wherever rows lie."""
GREATEST_WITH_NEIGHBOURS: Final = 2**15
"""Elements of a copy of weights that takes in more columns than its tile has."""
MOST_EXACT_TERMS: Final = 2**10
"""Products of int8 whose sum a float holds exactly: each is at most 2^14, and all whole numbers to 2^24 are floats."""
LEAST_EXACT_TERMS: Final = 2**6
"""Fewer are not worth adding up apart from the others."""
GREATEST_COPY: Final = 2**22
"""Elements of a tile that is copied; a larger one only where no smaller one pays."""


@dataclass(frozen=True, slots=True)
class CLoop:
    """A loop of C: each of its `size` iterations goes `step` elements on along its dimension."""

    name: str
    dimension: str
    size: int
    step: int


@dataclass(frozen=True, slots=True)
class CNest:
    """The loops of a mapping, of each kind innermost first.

    `tile` says how many elements of each dimension the loops in registers span, `lanes` of them (along `lane_loop`)
    in one vector. `steps` add to the sums of a tile, `around` lead to other tiles. `packed` says for an operand how
    many of the loops around the registers its copied tile spans; what is read where it lies is not among them.
    """

    layer: Layer
    lane_loop: str | None
    lanes: int
    tile: dict[str, int]
    steps: tuple[CLoop, ...]
    around: tuple[CLoop, ...]
    packed: dict[str, int]

    @property
    def width(self) -> int:
        """The elements of a vector: lanes, or more where their number is no power of two."""
        return 1 << (self.lanes - 1).bit_length()

    def vectors(self, dimension: str) -> int:
        """How many vectors, or elements where the lanes are along another dimension, the tile has along this one."""
        return -(-self.tile[dimension] // (self.lanes if dimension == self.lane_loop else 1))

    @property
    def adds_in_floats(self) -> bool:
        """Whether sums of int8 are exact in floats, as they are few, and inputs and weights become floats in copies."""
        added = prod(self.tile[name] for name in LOOPS if name not in RELEVANT[OUTPUT])
        is_exact = added * prod(loop.size for loop in self.steps) <= MOST_EXACT_TERMS
        return self.layer.input_bits == 8 and self.lane_loop == "K" and len(self.packed) == 2 and is_exact

    def ends_short(self, dimension: str) -> bool:
        """Whether loops of this dimension go beyond its bound."""
        return self.span(dimension, len(self.around)) != self.layer.bounds[dimension]

    def span(self, dimension: str, around: int) -> int:
        """How many elements the registers, the steps and so many loops around them span."""
        loops = (*self.steps, *self.around[:around])
        return self.tile[dimension] * prod(loop.size for loop in loops if loop.dimension == dimension)


def c_nest(layer: Layer, mapping: LayerMapping) -> CNest:
    """The loops of a legal mapping; raises InputError for a layer without weights."""
    if not layer.has_weight:
        raise InputError("it has no weights", place="layer", expected="a product or a convolution")
    executed = mapping.layer(layer)
    nest, lanes = _with_lanes(executed, mapping)
    cut = mapping.output[0].loops if mapping.output else 0
    in_tile = _loops_in_registers(nest, cut)
    tile = {name: prod(loop.size for loop, _ in nest[:in_tile] if loop.dimension == name) for name in LOOPS}
    loops = _named(nest[in_tile:], tile)
    steps = _steps(executed, tile, [loop for loop, _ in loops])
    around = loops[steps:]
    lane_loop = None if lanes is None else lanes.dimension
    plain = CNest(
        executed,
        lane_loop,
        1 if lanes is None else lanes.size,
        tile,
        tuple(loop for loop, _ in loops[:steps]),
        tuple(loop for loop, _ in around),
        {},
    )
    places = {o: _packed(o, mapping, plain, around) for o in (INPUT, WEIGHT)}
    if any(layer.padding):
        places[INPUT] = len(around)
    return replace(plain, packed={operand: place for operand, place in places.items() if place is not None})


def _steps(layer: Layer, tile: dict[str, int], loops: list[CLoop]) -> int:
    """How many loops outside the registers add to the same sums: of int8, where it pays, as many as floats can add."""
    steps = next((at for at, loop in enumerate(loops) if loop.dimension in RELEVANT[OUTPUT]), len(loops))
    if layer.input_bits != 8:
        return steps
    terms = prod(tile[name] for name in LOOPS if name not in RELEVANT[OUTPUT])
    for fewer, loop in enumerate(loops[:steps]):
        if terms * loop.size > MOST_EXACT_TERMS:
            return fewer if terms >= LEAST_EXACT_TERMS else steps
        terms *= loop.size
    return steps


def _with_lanes(layer: Layer, mapping: LayerMapping) -> tuple[list[tuple[Loop, int]], Loop | None]:
    """The loops, each with its place in the mapping, that of the lanes first; and the lanes."""
    nest = [(loop, at) for at, loop in enumerate(mapping.nest) if loop.size > 1]
    found = max(
        ((loop.size, -at) for loop, at in nest if loop.along is not None and _may_be_lanes(layer, loop.dimension)),
        default=None,
    )
    if found is None:
        return nest, None
    size, at = found[0], -found[1]
    dimension = mapping.nest[at].dimension
    lanes = size if size <= GREATEST_LANES else max(each for each in (1, 2, 4, 8, 16) if size % each == 0)
    if lanes == 1:
        return nest, None
    rest = [(loop, place) for loop, place in nest if place != at]
    more = [(Loop(dimension, size // lanes), at)] if size > lanes else []
    others = sorted((*rest, *more), key=lambda each: each[1])
    vector = Loop(dimension, lanes, mapping.nest[at].along)
    return [(vector, -1), *others], vector


def _may_be_lanes(layer: Layer, dimension: str) -> bool:
    """Neighbours along K lie beside each other; along the groups they do where a group has one channel."""
    return dimension == "K" or (dimension == "G" and layer.k == layer.c == 1)


def _loops_in_registers(nest: list[tuple[Loop, int]], cut: int) -> int:
    """How many of the first loops are written out: as many as the mapping's nearest sums span, or have room."""
    sums, unrolled, found = 1, 1, 0
    for count, (loop, at) in enumerate(nest, 1):
        is_lanes = at < 0
        is_of_sums = loop.dimension in RELEVANT[OUTPUT]
        if not is_lanes:
            unrolled *= loop.size
            sums *= loop.size if is_of_sums else 1
        if (not is_lanes and at >= cut) or sums > GREATEST_SUMS or unrolled > GREATEST_UNROLLED:
            break
        if is_of_sums:
            found = count
    return found


def _named(nest: list[tuple[Loop, int]], tile: dict[str, int]) -> list[tuple[CLoop, int]]:
    """Loops outside the registers, numbered from the innermost of each dimension."""
    step, count = dict(tile), dict.fromkeys(LOOPS, 0)
    found = []
    for loop, at in nest:
        name = loop.dimension
        count[name] += 1
        found.append((CLoop(f"{name.lower()}{count[name]}", name, loop.size, step[name]), at))
        step[name] *= loop.size
    return found


def _packed(operand: str, mapping: LayerMapping, nest: CNest, around: list[tuple[CLoop, int]]) -> int | None:
    """How many loops around the copied tile spans. Of tiles that pay it is the one copied least, then the smallest."""
    found: list[tuple[bool, int, int]] = []
    is_float_input = operand == INPUT and nest.layer.input_bits == 32
    least = LEAST_USES_OF_FLOAT_INPUTS if is_float_input else LEAST_USES
    for kept in mapping.kept(Operand(operand)):
        place = sum(at < kept.loops for _, at in around)
        place = _past_others(operand, around, place)
        reuse = prod(loop.size for loop, _ in around[:place] if loop.dimension not in RELEVANT[operand])
        at_once = prod(nest.vectors(name) for name in LOOPS if name not in RELEVANT[operand])
        elements = prod(nest.span(name, place) for name in RELEVANT[operand])
        if reuse * at_once >= least:
            found.append((elements > GREATEST_COPY, -reuse, place))
    return _with_neighbours(operand, nest, around, min(found)[2]) if found else None


def _with_neighbours(operand: str, nest: CNest, around: list[tuple[CLoop, int]], place: int) -> int:
    """The place of a copy, further out while it takes in weights beside these and stays small: rows in longer runs."""
    has_columns = operand == WEIGHT and nest.lane_loop == "K"
    while has_columns and place < len(around) and around[place][0].dimension == "K":
        if prod(nest.span(name, place + 1) for name in RELEVANT[operand]) > GREATEST_WITH_NEIGHBOURS:
            break
        place = _past_others(operand, around, place + 1)
    return place


def _past_others(operand: str, around: list[tuple[CLoop, int]], place: int) -> int:
    """The place behind the loops that lead to none of its other elements."""
    while place < len(around) and around[place][0].dimension not in RELEVANT[operand]:
        place += 1
    return place
