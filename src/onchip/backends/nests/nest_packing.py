"""Copies of tiles in C: weights in the order in which they are read, blocks of the input without gaps."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from onchip.backends.nests.nest_loops import CLoop, CNest
from onchip.backends.nests.nest_places import (
    OperandPlace,
    input_block,
    network_axes,
    place_in_network,
    place_of_packed_input,
    place_of_packed_weights,
)
from onchip.backends.nests.nest_text import CText, at, times
from onchip.ir.layer import INPUT, RELEVANT, WEIGHT

MOST_UNTIL_NEXT: Final = 2**16
"""Elements copied between neighbours, so that what is fetched ahead is still near when it is wanted."""


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """Writes a tile of weights one vector after the other; lanes beyond the last channel are zeros.

    It is read as it lies in the network, neighbours one after the other: lines and pages are met once.
    """

    nest: CNest
    name: str = "packed_weight"

    @property
    def place(self) -> OperandPlace:
        """Return where its elements lie."""
        return place_of_packed_weights(self.nest)

    def write(self, text: CText) -> None:
        """Write the loops that copy the tile; `text` then points into the copy."""
        nest, place, network = self.nest, self.place, place_in_network(self.nest, WEIGHT)
        text.add("/* The weights of this tile, in the order in which they are read. */")
        pointers, kinds = (
            dict(text.pointers),
            {WEIGHT: "const element", self.name: "held" if nest.adds_in_floats else "element"},
        )
        text.pointers[self.name] = self.name
        digits = [name for name in ("R", "S", "C", "G", "K") if nest.vectors(name) > 1]
        loops = [loop for loop in (*nest.steps, *nest.around[: nest.packed[WEIGHT]]) if loop.name in network.loops]
        apart = [(network.loops[loop.name], loop) for loop in loops] + [(network.tile[name], name) for name in digits]
        with ExitStack() as stack:
            for _, one in sorted(apart, key=itemgetter(0), reverse=True):
                if isinstance(one, CLoop):
                    stack.enter_context(text.loop(one))
                    text.move(one, {self.name: place, WEIGHT: network}, kinds)
                else:
                    stack.enter_context(text.block(self._over_tile(text, one)))
            target = at(text.pointers[self.name], *((f"{name.lower()}0", place.tile[name]) for name in digits))
            source = at(text.pointers[WEIGHT], *((f"{name.lower()}0", network.tile[name]) for name in digits))
            text.add(
                f"copy_vector({target}, {source}, {self._lanes(text)});"
                if nest.lane_loop
                else f"*({target}) = *({source});"
            )
            if beside := self._next_beside:
                text.add(f"__builtin_prefetch({source} + {beside});")
        text.pointers = {**pointers, WEIGHT: self.name}

    @property
    def _next_beside(self) -> int:
        """How many elements on the weights beside these begin, where these are copied soon after; else 0.

        Rows of few elements are far apart, and no processor foresees the next; what stands beside is in the same page.
        """
        nest = self.nest
        if nest.lane_loop != "K" or nest.layer.g > 1:
            return 0
        copied = self.place.elements
        for loop in nest.around[nest.packed[WEIGHT] :]:
            if loop.dimension == "K":
                return loop.step if copied <= MOST_UNTIL_NEXT else 0
            copied *= loop.size if loop.dimension in RELEVANT[WEIGHT] else 1
        return 0

    def _over_tile(self, text: CText, name: str) -> str:
        """The head of a loop over the tile in registers along one dimension, which ends where the dimension does."""
        digit, size = f"{name.lower()}0", self.nest.tile[name]
        reached = times(digit, self.nest.lanes) if name == self.nest.lane_loop else digit
        limit = str(size) if name not in text.left else f"smaller({size}, {text.left[name]})"
        return f"for (long {digit} = 0; {reached} < {limit}; {digit}++)"

    def _lanes(self, text: CText) -> str:
        nest = self.nest
        name = nest.lane_loop or ""
        left = text.left.get(name, str(nest.tile[name]))
        if nest.vectors(name) > 1:
            left = f"{left} - {times(f'{name.lower()}0', nest.lanes)}"
        return str(nest.lanes) if nest.layer.bounds[name] % nest.lanes == 0 else f"smaller({nest.lanes}, {left})"


@dataclass(frozen=True, slots=True)
class PackedInput:
    """Writes a block of the input row by row; zeros around it stay as the memory began."""

    nest: CNest
    name: str = "packed_input"

    @property
    def place(self) -> OperandPlace:
        """Return where its elements lie."""
        return place_of_packed_input(self.nest)

    def write(self, text: CText) -> None:
        """Write the loops that copy the block; `text` then points into the copy."""
        axes, block = network_axes(self.nest.layer), input_block(self.nest)
        is_whole = any(self.nest.layer.padding)
        top, left, _, _ = self.nest.layer.padding
        height, width = self.nest.layer.input_pixels
        sizes = {
            "N": self._within("N", text),
            "H": str(height) if is_whole else self._positions(text, 0),
            "W": str(width) if is_whole else self._positions(text, 1),
            "G": self._within("G", text),
            "C": self._within("C", text),
        }
        text.add("/* The inputs of this tile, row by row" + (" between zeros. */" if is_whole else ". */"))
        with ExitStack() as stack:
            loops = [name for name in sizes if sizes[name] != "1"] or ["C"]
            for name in loops:
                digit = name.lower()
                stack.enter_context(text.block(f"for (long {digit} = 0; {digit} < {sizes[name]}; {digit}++)"))
            begin = top * block.strides["H"] + left * block.strides["W"]
            target = " + ".join(
                (*(times(name.lower(), block.strides[name]) for name in loops), *([str(begin)] if begin else []))
            )
            source = " + ".join(times(name.lower(), axes[name]) for name in loops)
            text.add(f"{self.name}[{target}] = {text.pointers[INPUT]}[{source}];")
        text.pointers[INPUT] = self.name

    def _span(self, name: str) -> int:
        return min(self.nest.span(name, self.nest.packed[INPUT]), self.nest.layer.bounds[name])

    def _within(self, name: str, text: CText) -> str:
        span = self._span(name)
        return str(span) if name not in text.left else f"smaller({span}, {text.left[name]})"

    def _positions(self, text: CText, axis: int) -> str:
        """How many positions along an axis the outputs and taps that are left touch."""
        one = self.nest.layer.axes[axis]
        outputs, taps = self._within(one.output_loop, text), self._within(one.filter_loop, text)
        if outputs.isdigit() and taps.isdigit():
            return str(one.span(int(outputs), int(taps)))
        return f"({outputs} - 1) * {one.stride} + ({taps} - 1) * {one.dilation} + 1"
