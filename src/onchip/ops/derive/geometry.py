"""How an operator's tiles lie in its operands: axes that can be cut, and what a range of each needs of every operand.

A tile is a range for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from onchip.arch.memory import Operand
from onchip.ir.region import Range, Region


@dataclass(frozen=True, slots=True)
class TileAxis:
    """A dimension of the output, or of what is summed up, that may be cut.

    An axis that `is_last_resort` is cut only where no split along the others fits.
    """

    size: int
    is_reduction: bool = False
    is_last_resort: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """One dimension of an operand: all of it (`axis` None), or what follows from a range of an axis.

    A range [start, stop) needs [start // per * step + offset, (stop - 1) // per * step + offset + extent): for
    a convolution's rows `step` is its stride, `extent` the kernel's reach, `offset` the padding before, negated;
    for the input channels of a group, `per` counts its output channels.
    """

    size: int
    axis: int | None = None
    per: int = 1
    step: int = 1
    offset: int = 0
    extent: int = 1

    def range(self, start: int, stop: int, axis_size: int) -> Range:
        """Of a tile's range, within the dimension; empty where start == stop.

        What lies between two tiles' needs belongs to the one before, what lies after the last to the last: an
        operator's tiles together read all that the operator reads.
        """
        first = start // self.per * self.step + self.offset
        reach = (stop - 1) // self.per * self.step + self.offset + self.extent
        following = self.size if stop == axis_size else stop // self.per * self.step + self.offset
        low = min(max(first, 0), self.size)
        return low, max(low, min(max(reach, following), self.size))


@dataclass(frozen=True, slots=True)
class OperandAccess:
    """A tensor that the operator reads or writes, and how each of its dimensions follows from the axes."""

    tensor: str
    operand: Operand
    element_bytes: int
    spans: tuple[Span, ...]

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the whole tensor, not of a tile."""
        return self.element_bytes * prod(span.size for span in self.spans)

    def region(self, tile: Sequence[Range], axes: Sequence[TileAxis]) -> Region | None:
        """What the tile needs; None if that is nothing."""
        ranges = tuple(
            (0, span.size) if span.axis is None else span.range(*tile[span.axis], axes[span.axis].size)
            for span in self.spans
        )
        return ranges if all(start < stop for start, stop in ranges) else None


@dataclass(frozen=True, slots=True)
class Geometry:
    """An operator's axes and accesses; each write's regions partition its tensor. No operand stands twice alike."""

    axes: tuple[TileAxis, ...]
    reads: tuple[OperandAccess, ...]
    writes: tuple[OperandAccess, ...]

    @property
    def reduction(self) -> int | None:
        """The axis that is summed up, if there is one."""
        return next((index for index, axis in enumerate(self.axes) if axis.is_reduction), None)


def tile_sizes(size: int) -> tuple[int, ...]:
    """ceil(size / count) for every count of tiles, each once, the greatest first."""
    return tuple(sorted({-(-size // count) for count in range(1, size + 1)}, reverse=True))


def ranges_of(size: int, tile_size: int) -> tuple[Range, ...]:
    """[0, size) in pieces of `tile_size`, the last one perhaps shorter."""
    return tuple((start, min(start + tile_size, size)) for start in range(0, size, tile_size))


@lru_cache(maxsize=65536)
def cut_lines(span: Span, axis_size: int, tile_size: int) -> frozenset[int]:
    """The boundaries within a dimension at which the tiles along its axis begin and end."""
    tiles = ranges_of(axis_size, tile_size)
    return frozenset(end for tile in tiles for end in span.range(*tile, axis_size)) - {0, span.size}


def tiles_in_order(geometry: Geometry, sizes: Sequence[int], order: Sequence[int]) -> tuple[tuple[Range, ...], ...]:
    """Every tile, axes from the outermost of `order` in; each pass over an axis goes the other way than the last.

    So two tiles that follow each other differ along one axis only, and share what does not depend on it.
    """
    pieces = [ranges_of(axis.size, size) for axis, size in zip(geometry.axes, sizes, strict=True)]
    passes: list[tuple[int, ...]] = [()]
    for axis in order:
        forth = range(len(pieces[axis]))
        passes = [(*outer, index) for turn, outer in enumerate(passes) for index in (forth, forth[::-1])[turn % 2]]
    position = {axis: place for place, axis in enumerate(order)}
    return tuple(
        tuple(pieces[axis][indices[position[axis]]] for axis in range(len(geometry.axes))) for indices in passes
    )
