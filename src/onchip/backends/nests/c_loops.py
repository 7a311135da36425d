"""A mapping as loops of C, the strides of its operands, and the lines of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Layer

GREATEST_LANES: Final = 16
GREATEST_SUMS: Final = 32
"""Limit on vectors of partial sums that the compiler should keep in registers."""
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
class NestLoop:
    """A loop that moves `step` elements along its dimension in each of its `size` iterations.

    `along` is the dimension of the array, if the iterations run in parallel.
    """

    name: str
    dimension: str
    size: int
    step: int
    along: str | None = None


def numbered(loops: Iterable[Loop], spans: Mapping[str, int]) -> list[NestLoop]:
    """Number the loops of each dimension from the innermost, whose step is the dimension's span."""
    step, count = dict(spans), dict.fromkeys(LOOPS, 0)
    found = []
    for loop in loops:
        name = loop.dimension
        count[name] += 1
        found.append(NestLoop(f"{name.lower()}{count[name]}", name, loop.size, step[name], loop.along))
        step[name] *= loop.size
    return found


def element_bits(layer: Layer) -> int:
    """Return the bits of inputs and weights; raises InputError for elements other than float32 and int8."""
    if layer.input_bits != layer.weight_bits or layer.input_bits not in (8, 32):
        detail = f"inputs have {layer.input_bits} bits and weights {layer.weight_bits}"
        raise InputError(detail, place="layer", expected="both 32 (float32) or both 8 (int8, with sums of int32)")
    return layer.input_bits


@dataclass(frozen=True, slots=True)
class CNest:
    """The loops of a mapping, innermost first.

    `tile` has the elements of each dimension that the loops in registers span, `lanes` of them (along `lane_loop`) in
    one vector. `steps` add to the sums of a tile; `around` lead to other tiles. `packed` maps each copied operand to
    the number of `around` loops that its copied tile spans.
    """

    layer: Layer
    lane_loop: str | None
    lanes: int
    tile: dict[str, int]
    steps: tuple[NestLoop, ...]
    around: tuple[NestLoop, ...]
    packed: dict[str, int]

    @property
    def width(self) -> int:
        """Number of elements of a vector: the lanes, rounded up to a power of two."""
        return 1 << (self.lanes - 1).bit_length()

    def vectors(self, dimension: str) -> int:
        """Return the number of vectors, or of elements off the lane dimension, that the tile has along a dimension."""
        return -(-self.tile[dimension] // (self.lanes if dimension == self.lane_loop else 1))

    @property
    def adds_in_floats(self) -> bool:
        """True if few int8 products are summed, exactly, in floats; copies then hold floats."""
        added = prod(self.tile[name] for name in LOOPS if name not in RELEVANT[OUTPUT])
        is_exact = added * prod(loop.size for loop in self.steps) <= MOST_EXACT_TERMS
        return self.layer.input_bits == 8 and self.lane_loop == "K" and len(self.packed) == 2 and is_exact

    def ends_short(self, dimension: str) -> bool:
        """Return True if the loops of this dimension exceed its bound."""
        return self.span(dimension, len(self.around)) != self.layer.bounds[dimension]

    def span(self, dimension: str, around: int) -> int:
        """Return the elements that the registers, the steps and the first `around` loops span."""
        loops = (*self.steps, *self.around[:around])
        return self.tile[dimension] * prod(loop.size for loop in loops if loop.dimension == dimension)


def c_nest(layer: Layer, mapping: LayerMapping) -> CNest:
    """Return the loops of a legal mapping; raises InputError for a layer without weights."""
    if not layer.has_weight:
        raise InputError("it has no weights", place="layer", expected="a product or a convolution")
    executed = mapping.layer(layer)
    nest, lanes = _with_lanes(executed, mapping)
    cut = mapping.output[0].loops if mapping.output else 0
    in_tile = _loops_in_registers(nest, cut)
    tile = {name: prod(loop.size for loop, _ in nest[:in_tile] if loop.dimension == name) for name in LOOPS}
    outside = nest[in_tile:]
    loops = list(zip(numbered((loop for loop, _ in outside), tile), (at for _, at in outside), strict=True))
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


def _steps(layer: Layer, tile: dict[str, int], loops: list[NestLoop]) -> int:
    """Return the number of loops that add to a tile's sums; int8 stops where floats lose exactness, if that pays."""
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
    """Return the loops with their positions in the mapping, the vector loop first, and the vector loop."""
    nest = [(loop, at) for at, loop in enumerate(mapping.nest) if loop.size > 1]
    contiguous = ("K", "G") if layer.k == layer.c == 1 else ("K",)
    found = max(
        ((loop.size, -at) for loop, at in nest if loop.along is not None and loop.dimension in contiguous), default=None
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


def _loops_in_registers(nest: list[tuple[Loop, int]], cut: int) -> int:
    """Return the number of loops to unroll: those of the mapping's innermost sums, as far as registers suffice."""
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


def _packed(operand: str, mapping: LayerMapping, nest: CNest, around: list[tuple[NestLoop, int]]) -> int | None:
    """Return the number of `around` loops within the copied tile: the least copied, then smallest worthwhile tile."""
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


def _with_neighbours(operand: str, nest: CNest, around: list[tuple[NestLoop, int]], place: int) -> int:
    """Move a copy outwards while it gains neighbouring weights and stays small, for longer contiguous rows."""
    has_columns = operand == WEIGHT and nest.lane_loop == "K"
    while has_columns and place < len(around) and around[place][0].dimension == "K":
        if prod(nest.span(name, place + 1) for name in RELEVANT[operand]) > GREATEST_WITH_NEIGHBOURS:
            break
        place = _past_others(operand, around, place + 1)
    return place


def _past_others(operand: str, around: list[tuple[NestLoop, int]], place: int) -> int:
    while place < len(around) and around[place][0].dimension not in RELEVANT[operand]:
        place += 1
    return place


@dataclass(frozen=True, slots=True)
class OperandPlace:
    """Strides of an operand in elements: by the name of a loop, and along the tile in registers.

    Along the dimension of the lanes, the tile's stride is a vector.
    """

    loops: Mapping[str, int]
    tile: Mapping[str, int]
    elements: int


@dataclass(frozen=True, slots=True)
class InputBlock:
    """A copied block of the input: `sizes` and `strides` by axis, in elements."""

    sizes: Mapping[str, int]
    strides: Mapping[str, int]

    @property
    def elements(self) -> int:
        """Number of elements in the block."""
        return self.sizes["N"] * self.strides["N"]


def place_in_network(nest: CNest, operand: str) -> OperandPlace:
    """Return where an operand of the network lies."""
    strides = _network_strides(nest.layer, operand)
    return _place(nest, strides, nest.layer.elements(operand))


def place_of_packed_weights(nest: CNest) -> OperandPlace:
    """Return the strides of a copied weight tile: in the order of the loops, with whole vectors."""
    loops: dict[str, int] = {}
    tile: dict[str, int] = {}
    stride = nest.width
    for dimension in ("K", "G", "C", "S", "R"):
        tile[dimension] = stride
        stride *= nest.vectors(dimension)
    for loop in (*nest.steps, *nest.around[: nest.packed[WEIGHT]]):
        if loop.dimension in RELEVANT[WEIGHT]:
            loops[loop.name] = stride
            stride *= loop.size
    return OperandPlace(loops, tile, stride)


def place_of_packed_input(nest: CNest) -> OperandPlace:
    """Return where inputs lie in a copied block."""
    block = input_block(nest)
    strides = _along_loops(nest.layer, block.strides)
    inner = {loop.name for loop in nest.around[nest.packed[INPUT] :]}
    place = _place(nest, strides, block.elements)
    return OperandPlace(
        {name: stride for name, stride in place.loops.items() if name not in inner}, place.tile, place.elements
    )


def input_block(nest: CNest) -> InputBlock:
    """Return the input block that the loops inside its copy read; a block of the whole input includes its padding."""
    layer = nest.layer
    spans = {name: nest.span(name, nest.packed[INPUT]) for name in RELEVANT[INPUT]}
    spans = {name: min(span, layer.bounds[name]) for name, span in spans.items()}
    height, width = layer.axes
    sizes = {
        "N": spans["N"],
        "H": height.span(spans["P"], spans["R"]),
        "W": width.span(spans["Q"], spans["S"]),
        "G": spans["G"],
        "C": spans["C"],
    }
    pixel = sizes["G"] * sizes["C"]
    row = sizes["W"] * pixel
    image = sizes["H"] * row
    return InputBlock(sizes, {"N": image, "H": row, "W": pixel, "G": sizes["C"], "C": 1})


def network_axes(layer: Layer) -> dict[str, int]:
    """Return the distance in elements between neighbours along each axis of the input."""
    height, width = layer.input_pixels
    pixel = layer.g * layer.c
    return {"N": height * width * pixel, "H": width * pixel, "W": pixel, "G": layer.c, "C": 1}


def _network_strides(layer: Layer, operand: str) -> dict[str, int]:
    if operand == INPUT:
        return _along_loops(layer, network_axes(layer))
    order = ("R", "S", "C", "G", "K") if operand == WEIGHT else ("N", "P", "Q", "G", "K")
    bounds = layer.bounds
    return {name: prod(bounds[inner] for inner in order[at + 1 :]) for at, name in enumerate(order)}


def _along_loops(layer: Layer, axes: Mapping[str, int]) -> dict[str, int]:
    """Return the stride of each loop: P and R move along the height, Q and S along the width."""
    return {
        "N": axes["N"],
        "P": layer.stride[0] * axes["H"],
        "R": layer.dilation[0] * axes["H"],
        "Q": layer.stride[1] * axes["W"],
        "S": layer.dilation[1] * axes["W"],
        "G": axes["G"],
        "C": axes["C"],
    }


def _place(nest: CNest, strides: Mapping[str, int], elements: int) -> OperandPlace:
    loops = {
        loop.name: loop.step * strides[loop.dimension]
        for loop in (*nest.steps, *nest.around)
        if loop.dimension in strides
    }
    tile = {name: stride * (nest.lanes if name == nest.lane_loop else 1) for name, stride in strides.items()}
    return OperandPlace(loops, tile, elements)


@dataclass(slots=True)
class CText:
    """Lines of C, written from the outside in.

    `left` names, for each dimension that ends short, how many elements are left where a line is; `pointers` names, for
    each operand, the pointer to the first of its elements that the loops inside touch.
    """

    nest: CNest
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    left: dict[str, str] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    declared: list[tuple[str, int]] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a line, indented as deep as it stands."""
        self.lines.append("    " * self.depth + line if line else "")

    def limited(self, count: int, dimension: str) -> str:
        """Return a number of iterations along a dimension, at most as many as are left where it ends short."""
        return str(count) if dimension not in self.left else f"smaller({count}, {self.left[dimension]})"

    def declare(self, kind: str, name: str, value: str) -> None:
        """Declare a constant of the block; an unused constant is removed when the block ends."""
        self.declared.append((name, len(self.lines)))
        self.add(f"{kind}const {name} = {value};")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a block in braces after `head`; names declared in it end with it."""
        self.add(f"{head} {{")
        self.depth += 1
        left, pointers, declared = dict(self.left), dict(self.pointers), self.declared
        self.declared = []
        yield
        for name, place in reversed(self.declared):
            if not any(name in line for line in self.lines[place + 1 :]):
                del self.lines[place]
        self.left, self.pointers, self.declared = left, pointers, declared
        self.depth -= 1
        self.add("}")

    @contextmanager
    def loop(self, loop: NestLoop) -> Iterator[None]:
        """Write a loop that ends with its dimension."""
        left, count = self.left.get(loop.dimension), str(loop.size)
        if left is not None:
            whole = left if loop.step == 1 else f"({left} + {loop.step - 1}) / {loop.step}"
            count = f"smaller({loop.size}, {whole})"
        with self.block(f"for (long {loop.name} = 0; {loop.name} < {count}; {loop.name}++)"):
            if left is not None and loop.step > 1:
                self.left[loop.dimension] = f"{loop.name}_left"
                self.declare("long ", f"{loop.name}_left", f"{left} - {times(loop.name, loop.step)}")
            yield

    def move(self, loop: NestLoop, places: Mapping[str, OperandPlace], kinds: Mapping[str, str]) -> None:
        """Advance the pointers of the operands that depend on a loop; `kinds` are the types they point to."""
        for operand, place in places.items():
            if stride := place.loops.get(loop.name):
                name = f"{operand}_{loop.name}"
                self.declare(f"{kinds[operand]} *", name, f"{self.pointers[operand]} + {times(loop.name, stride)}")
                self.pointers[operand] = name


def times(name: str, factor: int) -> str:
    """Return a product, without a factor of one."""
    return name if factor == 1 else f"{name} * {factor}"


def at(pointer: str, *terms: tuple[str, int]) -> str:
    """Return a pointer plus a sum of names times factors."""
    return " + ".join((pointer, *(times(name, factor) for name, factor in terms)))
