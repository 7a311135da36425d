"""The statement of an operator as one affine loop nest, from which its slices and its loop nests are derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.ir.layer import Layer
from onchip.ir.window import Shape
from onchip.ops.derive.geometry import Span


@dataclass(frozen=True, slots=True)
class AffineDimension:
    """A dimension of an operand: each iteration meets the element `offset` + the sum of loop index * coefficient.

    `terms` maps loops to coefficients, the outermost loop first. Elements outside [0, size) are padding. Without terms,
    an iteration may meet any element.
    """

    size: int
    terms: Mapping[str, int]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator's loops with their extents, and the dimensions of each operand by its position.

    The first output has position 0, further outputs -1, -2, ...; inputs, then parameters, have 1, 2, ... Loops have the
    names of a Layer's loops, and numbers if there are several of one kind (P2, R2). `factors` are the positions of the
    input and of the weight of the loop nest, empty if the kind has no nest. `summed` is the reduction loop that slices
    may cut, or empty; no slice cuts the loops `uncut`. If shapes give only the extents of a nest, and not which
    elements meet, the nests are `stated`. `why` is the reason why shapes give no nest, if the kind has nests.
    """

    loops: Mapping[str, int] = field(default_factory=dict)
    operands: Mapping[int, tuple[AffineDimension, ...]] = field(default_factory=dict)
    factors: tuple[int, ...] = ()
    summed: str = ""
    uncut: frozenset[str] = frozenset()
    stated: Mapping[str, Layer] = field(default_factory=dict)
    why: str = ""

    def fits(self, shapes: Mapping[int, Shape]) -> bool:
        """Return True if the operands have the sizes that attributes and the other operands imply."""
        return 0 in self.operands and all(
            tuple(one.size for one in each) == shapes.get(place) for place, each in self.operands.items()
        )

    def span(self, dimension: AffineDimension, summed: int | None) -> Span:
        """Return the part of a dimension that ranges of the axes need; axes are the output's dimensions, and `summed`.

        For an output o = s * i + j + offset, with j from 0 to `excess`, the loop index i lies between o // s +
        ceil((-offset - excess) / s) and o // s + (s - 1 - offset) // s.
        """
        for axis, written in enumerate(self.operands[0]):
            if not self.uncut.isdisjoint(written.terms):
                continue
            if written.terms and (written.terms, written.offset) == (dimension.terms, dimension.offset):
                return Span(dimension.size, axis)
            outer = next(iter(written.terms), "")
            if outer in dimension.terms:
                per, step = written.terms[outer], dimension.terms[outer]
                first = -((written.offset + self._excess(written, outer)) // per)
                last = (per - 1 - written.offset) // per
                extent = 1 + step * (last - first) + self._excess(dimension, outer)
                return Span(dimension.size, axis, per, step, dimension.offset + step * first, extent)
        if summed is None or self.summed not in dimension.terms:
            return Span(dimension.size)
        times, extent = dimension.terms[self.summed], 1 + self._excess(dimension, self.summed)
        return Span(dimension.size, summed, step=times, extent=extent)

    def _excess(self, dimension: AffineDimension, outer: str) -> int:
        """Return the distance from the first to the last element of the loops inside `outer`."""
        return sum((self.loops[loop] - 1) * times for loop, times in dimension.terms.items() if loop != outer)


def along(shape: Shape, loop: str = "P") -> tuple[AffineDimension, ...]:
    """Return the dimensions of an operand that has a numbered loop for each."""
    return tuple(AffineDimension(size, {f"{loop}{at}": 1}) for at, size in enumerate(shape))


def lone_loops(operands: Mapping[int, tuple[AffineDimension, ...]]) -> dict[str, int]:
    """Return each loop that alone makes up a dimension of the output, or else of another operand, with its size."""
    loops: dict[str, int] = {}
    for place in sorted(operands):
        for one in operands[place]:
            loops |= {loop: one.size for loop in one.terms if len(one.terms) == 1 and loop not in loops}
    return loops


def spread(written: Sequence[AffineDimension], shape: Shape) -> tuple[AffineDimension, ...] | None:
    """Return the dimensions of an operand broadcast over `written` as in ONNX; None if the shapes do not match."""
    missing = len(written) - len(shape)
    if missing < 0 or any(size not in (1, one.size) for size, one in zip(shape, written[missing:], strict=True)):
        return None
    met = zip(shape, written[missing:], strict=True)
    return tuple(one if size == one.size else AffineDimension(1, {}) for size, one in met)


def per_channel(written: Sequence[AffineDimension], shape: Shape) -> tuple[AffineDimension, ...] | None:
    """Return the dimensions of an operand with one element per channel, or of a broadcast one; None otherwise."""
    return (written[1],) if len(written) > 1 and shape == (written[1].size,) else spread(written, shape)


def unknown(shape: Shape) -> tuple[AffineDimension, ...]:
    """Return the dimensions of an operand whose elements any iteration may read, such as a table."""
    return tuple(AffineDimension(size, {}) for size in shape)
