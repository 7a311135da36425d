"""Where elements lie, as expressions of a kernel: in the network, in shared memory and in a thread's registers.

In the network channels are last, as in the C of a mapping: inputs [N][height][width][G][C], weights [R][S][C][G][K],
outputs [N][P][Q][G][K]. Tiles have the same axes, shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Final, TypeAlias

from onchip.backends.nests.gpu_nest import GpuLoop, GpuNest
from onchip.backends.nests.nest_text import times
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Axis, Layer

AXES: Final[Mapping[str, tuple[str, ...]]] = {
    INPUT: ("N", "H", "W", "G", "C"),
    WEIGHT: ("R", "S", "C", "G", "K"),
    OUTPUT: ("N", "P", "Q", "G", "K"),
}
PIXELS: Final = ("H", "W")
Digits: TypeAlias = Callable[[GpuLoop], str]
"""The expression of a loop's iteration, where a line stands."""


def by_name(loop: GpuLoop) -> str:
    """A loop's iteration inside it."""
    return loop.name


def network_sizes(layer: Layer, operand: str) -> dict[str, int]:
    """The elements along each axis of an operand of the network, the last axis last."""
    height, width = layer.input_pixels
    sizes = {**layer.bounds, "H": height, "W": width}
    return {axis: sizes[axis] for axis in AXES[operand]}


def offset(places: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """How many elements from the first the one lies that is at these places of the axes."""
    terms, stride = [], 1
    for axis in reversed(list(sizes)):
        if places[axis] != "0" and sizes[axis] > 1:
            terms.append(times(_closed(places[axis]) if stride > 1 else places[axis], stride))
        stride *= sizes[axis]
    return " + ".join(reversed(terms)) or "0"


def index(loops: Iterable[GpuLoop], digits: Digits = by_name) -> str:
    """The index of a dimension that its loops lead to."""
    return " + ".join(times(digits(loop), loop.step) for loop in loops) or "0"


def pixel(axis: Axis, outputs: Iterable[GpuLoop], filters: Iterable[GpuLoop], *, relative: bool = False) -> str:
    """The row or column of the input that loops lead to; `relative` to that where they begin."""
    terms = [times(loop.name, loop.step * axis.stride) for loop in outputs]
    terms += [times(loop.name, loop.step * axis.dilation) for loop in filters]
    shift = f" - {axis.padding}" if axis.padding and not relative else ""
    return (" + ".join(terms) or "0") + shift


def axis_of(layer: Layer, name: str) -> Axis:
    """The height or the width of the input."""
    return layer.axes[PIXELS.index(name)]


def packed_index(loops: Sequence[GpuLoop], digits: Digits = by_name) -> str:
    """The place in a tile that has the iterations of these loops side by side."""
    terms, radix = [], 1
    for loop in loops:
        terms.append(times(digits(loop), radix))
        radix *= loop.size
    return " + ".join(terms) or "0"


def unpacked_digits(loops: Sequence[GpuLoop], place: str) -> dict[GpuLoop, str]:
    """The iteration of each of these loops at a place of such a tile."""
    found, radix = {}, 1
    for number, loop in enumerate(loops):
        shifted = place if radix == 1 else f"{place} / {radix}"
        is_last = number == len(loops) - 1
        found[loop] = shifted if is_last and radix == 1 else f"({shifted})" if is_last else f"({shifted} % {loop.size})"
        radix *= loop.size
    return found


def unpacked_index(loops: Sequence[GpuLoop], place: str) -> str:
    """The index that such a tile has at a place, those of other loops not counted; neighbours often stay neighbours."""
    is_close = all(outer.step == inner.step * inner.size for inner, outer in pairwise(loops))
    if loops and is_close and place != "0":
        return times(place, loops[0].step)
    digits = unpacked_digits(loops, place)
    return index(loops, lambda loop: digits[loop])


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand's tile in the shared memory of a block: as many elements as the largest tile touches.

    Rows and columns of the input are those from the first to the last that are touched, without zeros around it.
    """

    nest: GpuNest
    operand: str

    @property
    def name(self) -> str:
        """What the kernel calls it."""
        return f"shared_{self.operand}"

    @property
    def place(self) -> int:
        """The number of loops while which it stays."""
        return self.nest.lasts_to(self.operand, self.nest.shared[self.operand])

    @property
    def sizes(self) -> dict[str, int]:
        """Its elements along each axis."""
        return {axis: self._longest(axis) if axis in PIXELS else self._most(axis) for axis in AXES[self.operand]}

    @property
    def elements(self) -> int:
        """How many elements the tile has."""
        return prod(self.sizes.values())

    def loops(self, dimension: str) -> tuple[GpuLoop, ...]:
        """The loops of a dimension that it spans."""
        return self.nest.in_shared(self.operand, dimension)

    def others(self, dimension: str) -> tuple[GpuLoop, ...]:
        """The loops of a dimension that lead to another tile."""
        return self.nest.others(dimension, self.loops(dimension))

    def first(self, axis: str) -> str:
        """The first row or column of the input in it."""
        one = axis_of(self.nest.layer, axis)
        lowest = pixel(one, self.others(one.output_loop), self.others(one.filter_loop))
        return f"max({lowest}, 0)" if one.padding else lowest

    def _most(self, dimension: str) -> int:
        """The first tile along a dimension has the most indices."""
        return len(_indices(self.loops(dimension), self.nest.layer.bounds[dimension]))

    def _longest(self, name: str) -> int:
        axis = axis_of(self.nest.layer, name)
        ends = [list(self._ends(loop)) for loop in (axis.output_loop, axis.filter_loop)]
        longest = 0
        for (first_output, last_output), (first_filter, last_filter) in product(*ends):
            first = first_output * axis.stride + first_filter * axis.dilation - axis.padding
            last = last_output * axis.stride + last_filter * axis.dilation - axis.padding
            longest = max(longest, min(last, axis.size - 1) - max(first, 0) + 1)
        return longest

    def _ends(self, dimension: str) -> Iterable[tuple[int, int]]:
        """The first and the last index of each tile along a dimension."""
        bound = self.nest.layer.bounds[dimension]
        for first in _indices(self.others(dimension), bound):
            yield first, first + max(_indices(self.loops(dimension), bound - first))


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """An operand's tile in the registers of a thread: of an input with all between its first and last row and column.

    An operand that is not kept there has a tile of one element.
    """

    nest: GpuNest
    operand: str

    @property
    def name(self) -> str:
        """What the kernel calls it."""
        return "sums" if self.operand == OUTPUT else f"own_{self.operand}"

    @property
    def place(self) -> int:
        """The number of loops while which it stays."""
        return self.nest.lasts_to(self.operand, self.nest.registers.get(self.operand, 0))

    @property
    def sizes(self) -> dict[str, int]:
        """Its elements along each axis."""
        return {
            axis: self._span(axis) if axis in PIXELS else prod(loop.size for loop in self.loops(axis))
            for axis in AXES[self.operand]
        }

    @property
    def elements(self) -> int:
        """How many elements the tile has."""
        return prod(self.sizes.values())

    @property
    def multiplied(self) -> int:
        """How many of them are of use, at most: not what a stride skips, nor what is padding wherever the tile is."""
        return prod(self._most_read(axis) if axis in PIXELS else size for axis, size in self.sizes.items())

    def loops(self, dimension: str) -> tuple[GpuLoop, ...]:
        """The loops of a dimension that it spans."""
        return self.nest.in_registers(self.operand, dimension)

    def first(self, axis: str) -> str:
        """The first row or column of the input in it, which may lie before the input begins."""
        one = axis_of(self.nest.layer, axis)
        outputs, filters = (self.nest.others(name, self.loops(name)) for name in (one.output_loop, one.filter_loop))
        return pixel(one, outputs, filters)

    def element(self) -> str:
        """The one that the loops around a line lead to, as an expression."""
        places = {}
        for axis in AXES[self.operand]:
            if axis in PIXELS:
                one = axis_of(self.nest.layer, axis)
                places[axis] = pixel(one, self.loops(one.output_loop), self.loops(one.filter_loop), relative=True)
            else:
                places[axis] = packed_index(self.loops(axis))
        return f"{self.name}[{offset(places, self.sizes)}]"

    def _span(self, name: str) -> int:
        axis = axis_of(self.nest.layer, name)
        outputs = sum((loop.size - 1) * loop.step for loop in self.loops(axis.output_loop))
        filters = sum((loop.size - 1) * loop.step for loop in self.loops(axis.filter_loop))
        return outputs * axis.stride + filters * axis.dilation + 1

    def _most_read(self, name: str) -> int:
        axis = axis_of(self.nest.layer, name)
        outputs, filters = (list(self._tiles(loop)) for loop in (axis.output_loop, axis.filter_loop))
        read = (
            {output * axis.stride + tap * axis.dilation - axis.padding for output, tap in product(*tiles)}
            for tiles in product(outputs, filters)
        )
        return max(sum(0 <= row < axis.size for row in rows) for rows in read)

    def _tiles(self, dimension: str) -> Iterable[list[int]]:
        """The indices of each tile along a dimension."""
        bound = self.nest.layer.bounds[dimension]
        for first in _indices(self.nest.others(dimension, self.loops(dimension)), bound):
            yield [first + index for index in _indices(self.loops(dimension), bound - first)]


def _indices(loops: Sequence[GpuLoop], bound: int) -> list[int]:
    """Those below a bound that loops lead to, if all others of the dimension are at their first iteration."""
    found = [0]
    for loop in loops:
        found = [one + digit * loop.step for digit in range(loop.size) for one in found]
    return [one for one in found if one < bound]


def _closed(text: str) -> str:
    return f"({text})" if " " in text else text
