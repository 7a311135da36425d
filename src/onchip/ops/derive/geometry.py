"""The tile geometry of an operator: axes that can be cut, and the region of each operand that a range of them needs.

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
    """A dimension of the output, or a reduced dimension, that may be cut.

    An axis that `is_last_resort` is cut only if no split along the others fits.
    """

    size: int
    is_reduction: bool = False
    is_last_resort: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A dimension of an operand: all of it (`axis` None), or the part that follows from a range of an axis.

    A range [start, stop) needs [start // per * step + offset, (stop - 1) // per * step + offset + extent): for a
    convolution's rows `step` is its stride, `extent` the kernel's reach, `offset` the negated padding before; for the
    input channels of a group, `per` is its number of output channels.
    """

    size: int
    axis: int | None = None
    per: int = 1
    step: int = 1
    offset: int = 0
    extent: int = 1

    def range(self, start: int, stop: int, axis_size: int) -> Range:
        """Return the range of the dimension that a tile's range needs; empty if start == stop.

        Elements between two tiles' needs belong to the earlier tile, and elements after the last tile's needs to the
        last, so that an operator's tiles together read everything that the operator reads.
        """
        first = start // self.per * self.step + self.offset
        reach = (stop - 1) // self.per * self.step + self.offset + self.extent
        following = self.size if stop == axis_size else stop // self.per * self.step + self.offset
        low = min(max(first, 0), self.size)
        return low, max(low, min(max(reach, following), self.size))


@dataclass(frozen=True, slots=True)
class OperandAccess:
    """A tensor that the operator reads or writes, and the dependence of each of its dimensions on the axes."""

    tensor: str
    operand: Operand
    element_bytes: int
    spans: tuple[Span, ...]

    @property
    def size_bytes(self) -> int:
        """Return the size in bytes of the whole tensor, not of a tile."""
        return self.element_bytes * prod(span.size for span in self.spans)

    def region(self, tile: Sequence[Range], axes: Sequence[TileAxis]) -> Region | None:
        """Return the region that the tile needs, or None if it is empty."""
        ranges = tuple(
            (0, span.size) if span.axis is None else span.range(*tile[span.axis], axes[span.axis].size)
            for span in self.spans
        )
        return ranges if all(start < stop for start, stop in ranges) else None


@dataclass(frozen=True, slots=True)
class Geometry:
    """An operator's axes and accesses; the regions of each write partition its tensor, and no access is repeated."""

    axes: tuple[TileAxis, ...]
    reads: tuple[OperandAccess, ...]
    writes: tuple[OperandAccess, ...]

    @property
    def reduction(self) -> int | None:
        """Return the index of the reduced axis, or None without one."""
        return next((index for index, axis in enumerate(self.axes) if axis.is_reduction), None)


def tile_sizes(size: int) -> tuple[int, ...]:
    """Return ceil(size / count) for every count of tiles, without duplicates, in descending order."""
    return tuple(sorted({-(-size // count) for count in range(1, size + 1)}, reverse=True))


def ranges_of(size: int, tile_size: int) -> tuple[Range, ...]:
    """Return [0, size) in pieces of `tile_size`; the last one may be shorter."""
    return tuple((start, min(start + tile_size, size)) for start in range(0, size, tile_size))


@lru_cache(maxsize=65536)
def cut_lines(span: Span, axis_size: int, tile_size: int) -> frozenset[int]:
    """Return the boundaries inside a dimension at which the tiles along its axis begin and end."""
    tiles = ranges_of(axis_size, tile_size)
    return frozenset(end for tile in tiles for end in span.range(*tile, axis_size)) - {0, span.size}


def tiles_in_order(geometry: Geometry, sizes: Sequence[int], order: Sequence[int]) -> tuple[tuple[Range, ...], ...]:
    """Return every tile, with the first axis of `order` outermost; consecutive passes over an axis alternate direction.

    Consecutive tiles therefore differ along one axis only, and share the regions that do not depend on it.
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
