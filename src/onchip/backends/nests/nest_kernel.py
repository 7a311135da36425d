"""The innermost part of a nest as a C function: a tile of sums in registers, and the loops that add to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Final

from onchip.backends.nests.nest_loops import GREATEST_UNROLLED, CLoop, CNest
from onchip.backends.nests.nest_places import LINE_ELEMENTS, OperandPlace
from onchip.backends.nests.nest_text import CText, at, times
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT

OF_SUMS: Final = RELEVANT[OUTPUT]
ADDED_UP: Final = ("R", "S", "C")
KINDS: Final = {INPUT: "const element", WEIGHT: "const element", OUTPUT: "sum"}


@dataclass(frozen=True, slots=True)
class NestKernel:
    """Writes `tile`: loops over sums have sizes that are known where it is called, so that they are written out."""

    nest: CNest
    places: dict[str, OperandPlace]

    @property
    def kinds(self) -> dict[str, str]:
        """Return what the function's pointers point to: where sums are added in floats, copies are floats."""
        return {**KINDS, INPUT: "const held", WEIGHT: "const held"} if self.nest.adds_in_floats else KINDS

    @property
    def varying(self) -> tuple[str, ...]:
        """The dimensions along which the last tile of sums is shorter than the others."""
        bounds, tile = self.nest.layer.bounds, self.nest.tile
        return tuple(name for name in OF_SUMS if bounds[name] % tile[name])

    @property
    def ending(self) -> tuple[str, ...]:
        """The dimensions that are added up here and end short."""
        here = {name for name in ADDED_UP if self.nest.tile[name] > 1} | {loop.dimension for loop in self.nest.steps}
        return tuple(name for name in ADDED_UP if name in here and self.nest.ends_short(name))

    @property
    def returns(self) -> bool:
        """Whether sums leave the registers before they are complete: a loop around the tile adds to them."""
        return any(loop.dimension in ADDED_UP for loop in self.nest.around)

    @property
    def has_parts_of_vectors(self) -> bool:
        """Whether some vector has fewer elements than there are in a register."""
        nest = self.nest
        return nest.lane_loop is not None and (
            nest.lanes != nest.width or nest.layer.bounds[nest.lane_loop] % nest.lanes != 0
        )

    def write(self, text: CText) -> None:
        """Write the function, which is inlined where it is called."""
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
                if self.returns:
                    text.add(f"__builtin_prefetch({target}, 1);")
            self._add_up(text, sums)
            with ExitStack() as stack:
                self._over(text, stack, self._axes)
                self._write_sums(text, target, sums)
        text.add("")

    def _write_sums(self, text: CText, target: str, sums: str) -> None:
        """Add what was there before, and store; whole numbers that were added up in floats are such again."""
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
                if loop is self.nest.steps[0] and self._written_out > 1:
                    self._in_parts(text, stack, loop)
                else:
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

    @property
    def _next_inputs(self) -> int:
        """How many elements on the inputs of the next tile begin, where each step reads on along a line; else 0.

        They come as single rows, which no processor foresees. Where tiles have rows in common there is little to fetch.
        """
        nest, place = self.nest, self.places[INPUT]
        if nest.layer.input_bits != 32 or not nest.steps or nest.layer.r * nest.layer.s > 1:
            return 0
        loop = nest.steps[0]
        if place.loops.get(loop.name) != 1 or self._written_out != LINE_ELEMENTS:
            return 0
        return next((place.loops[outer.name] for outer in nest.around if place.loops.get(outer.name)), 0)

    @property
    def _written_out(self) -> int:
        """How many of the innermost steps are written out one after the other, up to those along a line of inputs.

        They divide the loop and are not all of it (then GCC keeps sums in memory). Others that share the core slow
        loops of short bodies most.
        """
        loop = self.nest.steps[0]
        if loop.dimension in self.ending:
            return 1
        most = min(LINE_ELEMENTS, loop.size // 2, GREATEST_UNROLLED // prod(map(self.nest.vectors, LOOPS)))
        return max((count for count in range(1, most + 1) if loop.size % count == 0), default=1)

    def _in_parts(self, text: CText, stack: ExitStack, loop: CLoop) -> None:
        """A loop around steps written out; where these read a line of inputs, that of the next tile is fetched."""
        part, count = f"{loop.name}_part", self._written_out
        stack.enter_context(text.block(f"for (long {part} = 0; {part} < {loop.size}; {part} += {count})"))
        if ahead := self._next_inputs:
            rows = tuple(name for name in self._axes if name in RELEVANT[INPUT] and name != self.nest.lane_loop)
            with ExitStack() as over_rows:
                self._over(text, over_rows, rows)
                place = at(text.pointers[INPUT], (part, 1), *self._offsets(INPUT, rows))
                text.add(f"__builtin_prefetch({place} + {ahead});")
        text.add("UNROLLED")
        head = f"for (long {loop.name} = {part}; {loop.name} < {part} + {count}; {loop.name}++)"
        stack.enter_context(text.block(head))

    def _read_weights(self, text: CText, pointer: str, *, is_inside: bool) -> str:
        """Read each vector of weights once for all rows, all at once where they stand inside; return where it is."""
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
        """The dimensions along which the tile has several vectors of sums."""
        return tuple(name for name in OF_SUMS if self.nest.vectors(name) > 1)

    @property
    def _in_order(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Its loops from the outside in, those within which weights are read and those for which they are kept.

        What the inner ones read is kept, so they are the fewer: vectors, or rows.
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
        """Loops over the tile along these dimensions, written out where their sizes are known."""
        for name in names:
            digit, size = _digit(name), str(self.nest.vectors(name))
            if name in self.varying:
                reached = times(digit, self.nest.lanes) if name == self.nest.lane_loop else digit
                head = f"for (long {digit} = 0; {reached} < {name.lower()}_size; {digit}++)"
            else:
                if name in text.left:
                    size = f"smaller({size}, {text.left[name]})"
                head = f"for (long {digit} = 0; {digit} < {size}; {digit}++)"
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
        """How many elements the vector has that a line is about."""
        lane_loop, lanes = self.nest.lane_loop or "", self.nest.lanes
        name = f"{lane_loop.lower()}_size" if lane_loop in self.varying else str(self.nest.tile[lane_loop])
        if lane_loop in self._axes:
            name = f"{name} - {times(_digit(lane_loop), lanes)}"
        return f"smaller({lanes}, {name})"


def _digit(dimension: str) -> str:
    return f"{dimension.lower()}0"
