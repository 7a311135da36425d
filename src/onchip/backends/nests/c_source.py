"""A mapping of a layer as one C function, with the vectors of GCC and Clang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from math import prod
from operator import itemgetter
from string import Template
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.backends.c.calls import comment
from onchip.backends.nests.c_loops import (
    CNest,
    CText,
    NestLoop,
    OperandPlace,
    at,
    c_nest,
    element_bits,
    input_block,
    network_axes,
    place_in_network,
    place_of_packed_input,
    place_of_packed_weights,
    times,
)
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Axis, Layer

OF_SUMS: Final = RELEVANT[OUTPUT]
ADDED_UP: Final = ("R", "S", "C")
KINDS: Final = {INPUT: "const element", WEIGHT: "const element", OUTPUT: "sum"}


@dataclass(frozen=True, slots=True)
class NestKernel:
    """Writes the function `tile`, whose loop sizes are constants at its calls, so that compilers unroll the loops."""

    nest: CNest
    places: dict[str, OperandPlace]

    @property
    def kinds(self) -> dict[str, str]:
        """Return what the function's pointers point to: where sums are added in floats, copies are floats."""
        return {**KINDS, INPUT: "const held", WEIGHT: "const held"} if self.nest.adds_in_floats else KINDS

    @property
    def varying(self) -> tuple[str, ...]:
        """Dimensions along which the last tile of sums is shorter than the others."""
        bounds, tile = self.nest.layer.bounds, self.nest.tile
        return tuple(name for name in OF_SUMS if bounds[name] % tile[name])

    @property
    def ending(self) -> tuple[str, ...]:
        """Reduction dimensions of this function that end short."""
        here = {name for name in ADDED_UP if self.nest.tile[name] > 1} | {loop.dimension for loop in self.nest.steps}
        return tuple(name for name in ADDED_UP if name in here and self.nest.ends_short(name))

    @property
    def returns(self) -> bool:
        """True if incomplete sums leave the registers, because a loop around the tile adds to them."""
        return any(loop.dimension in ADDED_UP for loop in self.nest.around)

    @property
    def has_parts_of_vectors(self) -> bool:
        """True if some vector has fewer elements than a register."""
        nest = self.nest
        return nest.lane_loop is not None and (
            nest.lanes != nest.width or nest.layer.bounds[nest.lane_loop] % nest.lanes != 0
        )

    def write(self, text: CText) -> None:
        """Write the function, which compilers inline."""
        text.pointers = {operand: operand for operand in KINDS}
        text.left = {name: f"{name.lower()}_left" for name in self.ending}
        parameters = [f"{kind} *restrict {operand}" for operand, kind in self.kinds.items()]
        parameters += [f"const long {name.lower()}_size" for name in self.varying]
        parameters += [f"const long {name.lower()}_left" for name in self.ending]
        parameters += ["const int is_first"] if self.returns else []
        sizes = "".join(f"[{self.nest.vectors(name)}]" for name in self._axes) or "[1]"
        sums = f"sums{''.join(f'[{_digit(name)}]' for name in self._axes) or '[0]'}"
        text.add("/* Adds up a tile of outputs, which stays in registers meanwhile. */")
        with text.block(f"static inline ALWAYS void tile({', '.join(parameters)})"):
            text.add(f"vector sums{sizes};")
            target = at("output", *self._offsets(OUTPUT, self._axes))
            with ExitStack() as stack:
                self._over(text, stack, self._axes)
                text.add(f"{sums} = (vector){{0}};")
            self._add_up(text, sums)
            with ExitStack() as stack:
                self._over(text, stack, self._axes)
                self._write_sums(text, target, sums)
        text.add("")

    def _write_sums(self, text: CText, target: str, sums: str) -> None:
        """Add the earlier partial sums and store; sums of floats become integers first."""
        made = "made" if self.nest.adds_in_floats else sums
        if self.nest.adds_in_floats:
            text.add(f"totals made = __builtin_convertvector({sums}, totals);")
        if self.returns:
            text.add("if (!is_first)")
            text.add(f"    {made} += {self._loaded(target, 'sum')};")
        text.add(self._stored(target, made))

    def _add_up(self, text: CText, sums: str) -> None:
        inputs = {operand: self.places[operand] for operand in (INPUT, WEIGHT)}
        with ExitStack() as stack:
            for loop in reversed(self.nest.steps):
                stack.enter_context(text.loop(loop))
                text.move(loop, inputs, self.kinds)
            added = tuple(name for name in ADDED_UP if self.nest.tile[name] > 1)
            outside, inside = self._in_order
            self._over(text, stack, (*added, *outside))
            x = at(text.pointers[INPUT], *self._offsets(INPUT, (*added, *self._axes)))
            w = at(text.pointers[WEIGHT], *self._offsets(WEIGHT, (*added, *self._axes)))
            weights = f"(sum)*({w})"
            if self.nest.lane_loop is not None:
                weights = self._read_weights(text, w, is_inside=self.nest.lane_loop in inside)
            self._over(text, stack, inside)
            one = f"*({x})" if self.nest.adds_in_floats else f"(sum)*({x})"
            values = self._loaded(x, "element") if self.nest.lane_loop == "G" else one
            text.add(f"{sums} += {weights} * {values};")

    def _read_weights(self, text: CText, pointer: str, *, is_inside: bool) -> str:
        """Read each vector of weights once for all rows; return its expression."""
        lane_loop = self.nest.lane_loop or ""
        kind = "held" if self.nest.adds_in_floats else "element"
        weights = self._loaded(pointer, kind, whole=WEIGHT in self.nest.packed)
        if not is_inside:
            text.add(f"const vector weights = {weights};")
            return "weights"
        text.add(f"vector weights[{self.nest.vectors(lane_loop)}];")
        with ExitStack() as stack:
            self._over(text, stack, (lane_loop,))
            text.add(f"weights[{_digit(lane_loop)}] = {weights};")
        return f"weights[{_digit(lane_loop)}]"

    @property
    def _axes(self) -> tuple[str, ...]:
        return tuple(name for name in OF_SUMS if self.nest.vectors(name) > 1)

    @property
    def _in_order(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tile's loops outside the reads of weights and inside, outermost first.

        The inner loops keep their weights in registers, so that they are the smaller group: vectors, or rows.
        """
        axes, lanes = self._axes, self.nest.lane_loop
        groups = tuple(name for name in axes if name == "G" and name != lanes)
        rows = tuple(name for name in axes if name not in (*groups, lanes))
        if lanes not in axes:
            return groups, rows
        if prod(map(self.nest.vectors, rows)) < self.nest.vectors(lanes):
            return (*groups, lanes), rows
        return groups, (*rows, lanes)

    def _over(self, text: CText, stack: ExitStack, names: Sequence[str]) -> None:
        """Open loops over the tile along these dimensions, unrolled if their sizes are constants."""
        for name in names:
            digit = _digit(name)
            if name in self.varying:
                reached = times(digit, self.nest.lanes) if name == self.nest.lane_loop else digit
                head = f"for (long {digit} = 0; {reached} < {name.lower()}_size; {digit}++)"
            else:
                limit = text.limited(self.nest.vectors(name), name)
                head = f"for (long {digit} = 0; {digit} < {limit}; {digit}++)"
            if name not in text.left:
                text.add("UNROLLED")
            stack.enter_context(text.block(head))

    def _offsets(self, operand: str, names: Sequence[str]) -> list[tuple[str, int]]:
        strides = self.places[operand].tile
        return [(_digit(name), strides[name]) for name in names if name in RELEVANT[operand]]

    def _loaded(self, pointer: str, kind: str, *, whole: bool = False) -> str:
        if self.nest.lane_loop is None:
            return f"*({pointer})"
        if whole or not self.has_parts_of_vectors:
            return f"{kind}_vector({pointer})"
        return f"some_{kind}s({pointer}, {self._lanes_left})"

    def _stored(self, pointer: str, value: str) -> str:
        if self.nest.lane_loop is None or not self.has_parts_of_vectors:
            kind = "totals" if self.nest.adds_in_floats else "vector"
            return f"*({kind} *)({pointer}) = {value};"
        return f"store_some({pointer}, {value}, {self._lanes_left});"

    @property
    def _lanes_left(self) -> str:
        lane_loop, lanes = self.nest.lane_loop or "", self.nest.lanes
        name = f"{lane_loop.lower()}_size" if lane_loop in self.varying else str(self.nest.tile[lane_loop])
        if lane_loop in self._axes:
            name = f"{name} - {times(_digit(lane_loop), lanes)}"
        return f"smaller({lanes}, {name})"


def _digit(dimension: str) -> str:
    return f"{dimension.lower()}0"


def _copy_weights(text: CText, nest: CNest, place: OperandPlace) -> None:
    """Write the loops that copy a tile of weights one vector after the other; `text` then points into the copy.

    Lanes beyond the last channel are zeros. The tile is read as it lies in the network, neighbours one after the other:
    lines and pages are met once.
    """
    copy, network = f"packed_{WEIGHT}", place_in_network(nest, WEIGHT)
    text.add("/* The weights of this tile, in the order in which they are read. */")
    pointers = dict(text.pointers)
    kinds = {WEIGHT: "const element", copy: "held" if nest.adds_in_floats else "element"}
    text.pointers[copy] = copy
    digits = [name for name in ("R", "S", "C", "G", "K") if nest.vectors(name) > 1]
    loops = [loop for loop in (*nest.steps, *nest.around[: nest.packed[WEIGHT]]) if loop.name in network.loops]
    apart = [(network.loops[loop.name], loop) for loop in loops] + [(network.tile[name], name) for name in digits]
    with ExitStack() as stack:
        for _, one in sorted(apart, key=itemgetter(0), reverse=True):
            if isinstance(one, NestLoop):
                stack.enter_context(text.loop(one))
                text.move(one, {copy: place, WEIGHT: network}, kinds)
            else:
                digit, limit = _digit(one), text.limited(nest.tile[one], one)
                reached = times(digit, nest.lanes) if one == nest.lane_loop else digit
                stack.enter_context(text.block(f"for (long {digit} = 0; {reached} < {limit}; {digit}++)"))
        target = at(text.pointers[copy], *((_digit(name), place.tile[name]) for name in digits))
        source = at(text.pointers[WEIGHT], *((_digit(name), network.tile[name]) for name in digits))
        if name := nest.lane_loop:
            left = text.left.get(name, str(nest.tile[name]))
            if nest.vectors(name) > 1:
                left = f"{left} - {times(_digit(name), nest.lanes)}"
            lanes = nest.lanes if nest.layer.bounds[name] % nest.lanes == 0 else f"smaller({nest.lanes}, {left})"
            text.add(f"copy_vector({target}, {source}, {lanes});")
        else:
            text.add(f"*({target}) = *({source});")
    text.pointers = {**pointers, WEIGHT: copy}


def _copy_input(text: CText, nest: CNest) -> None:
    """Write the loops that copy a block of the input row by row; `text` then points into the copy.

    A block of a whole padded input lies between zeros, which stay as the memory began.
    """
    layer, axes, block = nest.layer, network_axes(nest.layer), input_block(nest)

    def within(name: str) -> str:
        return text.limited(min(nest.span(name, nest.packed[INPUT]), layer.bounds[name]), name)

    def positions(axis: Axis) -> str:
        outputs, taps = within(axis.output_loop), within(axis.filter_loop)
        if outputs.isdigit() and taps.isdigit():
            return str(axis.span(int(outputs), int(taps)))
        return f"({outputs} - 1) * {axis.stride} + ({taps} - 1) * {axis.dilation} + 1"

    is_whole = any(layer.padding)
    rows, columns = map(str, layer.input_pixels) if is_whole else map(positions, layer.axes)
    sizes = {"N": within("N"), "H": rows, "W": columns, "G": within("G"), "C": within("C")}
    text.add("/* The inputs of this tile, row by row" + (" between zeros. */" if is_whole else ". */"))
    with ExitStack() as stack:
        loops = [name for name in sizes if sizes[name] != "1"] or ["C"]
        for digit, size in ((name.lower(), sizes[name]) for name in loops):
            stack.enter_context(text.block(f"for (long {digit} = 0; {digit} < {size}; {digit}++)"))
        top, left, _, _ = layer.padding
        begin = top * block.strides["H"] + left * block.strides["W"]
        places = [times(name.lower(), block.strides[name]) for name in loops] + ([str(begin)] if begin else [])
        source = " + ".join(times(name.lower(), axes[name]) for name in loops)
        text.add(f"packed_{INPUT}[{' + '.join(places)}] = {text.pointers[INPUT]}[{source}];")
    text.pointers[INPUT] = f"packed_{INPUT}"


READ_ONCE: Final = "*(const volatile vector *)from"
"""A volatile read, because compilers otherwise read a vector again for each row."""
READ_AND_WIDENED: Final = "__builtin_convertvector(__builtin_convertvector(*(const few *)from, halfway), vector)"


def helping_functions(nest: CNest, kernel: NestKernel) -> Iterator[str]:
    """Yield the functions of vectors.c.template that the nest calls, each with an empty line at its end."""
    text = files("onchip.backends.nests").joinpath("vectors.c.template").read_text(encoding="utf-8")
    smaller, vector, some, store_some, copy_vector = (Template(f"{one.rstrip()}\n") for one in text.split("\n\n"))
    totals, held = ("totals", "held") if nest.adds_in_floats else ("vector", "element")
    in_parts, by_lanes = kernel.has_parts_of_vectors, nest.lane_loop is not None
    is_packed = WEIGHT in nest.packed
    wanted = [
        (in_parts or any(nest.ends_short(name) for name in LOOPS), smaller, ""),
        (by_lanes and (is_packed or not in_parts), vector, held),
        (by_lanes and not in_parts and kernel.returns, vector, "sum"),
        (in_parts and (not is_packed or nest.lane_loop == "G"), some, "element"),
        (in_parts and kernel.returns, some, "sum"),
        (in_parts, store_some, "sum"),
        (by_lanes and is_packed, copy_vector, held),
    ]
    element = READ_AND_WIDENED if nest.layer.input_bits == 8 else READ_ONCE
    whole = {"element": element, "held": READ_ONCE, "sum": f"*(const {totals} *)from"}
    for is_wanted, function, kind in wanted:
        if is_wanted:
            types = {"kind": kind, "type": totals if kind == "sum" else "vector", "totals": totals}
            yield function.substitute(types, whole=whole.get(kind), width=nest.width)


ELEMENTS: Final = {32: ("float", "float", 4), 8: ("int8_t", "int32_t", 1)}
"""Map from element bits to the C types of elements and sums, and the bytes of an element."""


def nest_source(layer: Layer, mapping: LayerMapping, name: str, label: str = "") -> str:
    """Return the C source of a function `name(input, weight, output)`; its comment quotes `label`.

    Raises InputError for a layer without weights, or with elements other than float32 (32 bits) and int8 (8 bits).
    """
    element_bits(layer)
    nest = c_nest(layer, mapping)
    places = {operand: place_in_network(nest, operand) for operand in KINDS}
    if INPUT in nest.packed:
        places[INPUT] = place_of_packed_input(nest)
    if WEIGHT in nest.packed:
        places[WEIGHT] = place_of_packed_weights(nest)
    kernel, text = NestKernel(nest, places), CText(nest)
    text.add(f"/* {comment(label or str(dict(layer.bounds)))}")
    text.add(f" * {comment(str(mapping))}")
    text.lines += [*_types(nest), *helping_functions(nest, kernel)]
    for operand in nest.packed:
        kind = "held" if nest.adds_in_floats else "element"
        text.add(f"static {kind} packed_{operand}[{places[operand].elements}] ALIGNED;")
    if nest.packed:
        text.add("")
    kernel.write(text)
    _write_function(text, kernel, name)
    return "\n".join(text.lines) + "\n"


def _types(nest: CNest) -> Iterator[str]:
    element, total, element_bytes = ELEMENTS[nest.layer.input_bits]
    yield " * input [N][height][width][G][C], weight [R][S][C][G][K], output [N][P][Q][G][K]. Not reentrant. */"
    yield "#include <stdint.h>"
    yield ""
    yield f"typedef {element} element;"
    yield f"typedef {total} sum;"
    width = nest.width
    if nest.lane_loop is None:
        yield "typedef sum vector;"
    else:
        yield '#pragma GCC diagnostic ignored "-Wpsabi" /* no vector leaves this file */'
        vector = f"__attribute__((vector_size({4 * width}), aligned(4), may_alias))"
        if nest.adds_in_floats:
            yield "typedef float held; /* holds every sum of so few products of int8 */"
            yield f"typedef held vector {vector};"
            yield f"typedef sum totals {vector};"
        else:
            yield f"typedef sum vector {vector};"
        if element_bytes == 1:
            yield f"typedef element few __attribute__((vector_size({width}), aligned(1), may_alias));"
            yield f"typedef int16_t halfway __attribute__((vector_size({2 * width})));"
    yield "#define ALWAYS __attribute__((always_inline, unused))"
    if nest.packed:
        yield "#define ALIGNED __attribute__((aligned(64)))"
    yield "#ifdef __clang__"
    yield '#define UNROLLED _Pragma("clang loop unroll(full)")'
    yield "#else"
    yield '#define UNROLLED _Pragma("GCC unroll 64")'
    yield "#endif"
    yield ""


def _write_function(text: CText, kernel: NestKernel, name: str) -> None:
    """Write the function: the loops around the tile, the copies between them, and the calls of the kernel."""
    nest = kernel.nest
    text.left = {name: str(bound) for name, bound in nest.layer.bounds.items() if nest.ends_short(name)}
    text.pointers = {operand: operand for operand in KINDS}
    parameters = ", ".join(f"{kind} *restrict {operand}" for operand, kind in KINDS.items())
    text.add(f"void {name}({parameters});")
    text.add("")
    with text.block(f"void {name}({parameters})"), ExitStack() as stack:
        for place in range(len(nest.around), -1, -1):
            if place < len(nest.around):
                loop = nest.around[place]
                stack.enter_context(text.loop(loop))
                whole = {
                    operand: kernel.places[operand]
                    if place < nest.packed.get(operand, len(nest.around))
                    else place_in_network(nest, operand)
                    for operand in KINDS
                }
                kinds = {
                    operand: kernel.kinds[operand] if place < nest.packed.get(operand, 0) else kind
                    for operand, kind in KINDS.items()
                }
                text.move(loop, whole, kinds)
            if nest.packed.get(INPUT) == place:
                _copy_input(text, nest)
            if nest.packed.get(WEIGHT) == place:
                _copy_weights(text, nest, kernel.places[WEIGHT])
        _call(text, kernel)


def _call(text: CText, kernel: NestKernel) -> None:
    """Call the kernel for whole tiles and, where a dimension ends within one, for shorter ones."""
    nest, sizes = kernel.nest, []
    for name in kernel.varying:
        bound, size = nest.layer.bounds[name], nest.tile[name]
        sizes.append((size, bound % size) if bound > size else (bound,))
    first = " && ".join(f"{loop.name} == 0" for loop in nest.around if loop.dimension in ADDED_UP)
    shared = [text.pointers[operand] for operand in KINDS]
    rest = [text.left[name] for name in kernel.ending] + ([first] if first else [])
    ways = list(product(*sizes))
    for number, way in enumerate(ways):
        whole = [
            f"{text.left[name]} >= {size}"
            for name, size, choices in zip(kernel.varying, way, sizes, strict=True)
            if len(choices) > 1 and size == choices[0]
        ]
        call = f"tile({', '.join((*shared, *map(str, way), *rest))});"
        head = "" if len(ways) == 1 else f"if ({' && '.join(whole)})" if whole else ""
        text.add(" ".join(part for part in ("else" if number else "", head, call) if part))
