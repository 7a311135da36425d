"""The statement of an operator as one affine loop nest, from which its slices and its loop nests are derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onchip.ir.window import Shape
from onchip.ops.derive.geometry import Span


@dataclass(frozen=True, slots=True)
class AffineDimension:
    """A dimension of an operand: each iteration meets the element `offset` + the sum of loop index * coefficient.

    `terms` maps loops to coefficients, the outermost loop first. Elements outside [0, size) are padding.
    """

    size: int
    terms: Mapping[str, int]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """Loops with their extents, and the dimensions of each operand by its place: the output 0, the input 1, a weight.

    Loops have the names of a Layer's loops; those of pixels end in a number (P2, R2). Operands at other places are
    scales and biases. `summed` is the reduction loop that slices may cut, or empty.
    """

    loops: Mapping[str, int]
    operands: Mapping[int, tuple[AffineDimension, ...]]
    summed: str = ""

    def fits(self, shapes: Sequence[Shape]) -> bool:
        """True if the operands have the sizes that attributes and the other operands say."""
        return all(tuple(one.size for one in each) == shapes[place] for place, each in self.operands.items())

    def span(self, dimension: AffineDimension, summed: int | None) -> Span:
        """Return what ranges of the axes need of a dimension; the axes are the output's dimensions, and `summed`.

        Of an output o = s * i + j + offset, with j from 0 to `excess`, the loop index i lies between
        o // s + ceil((-offset - excess) / s) and o // s + (s - 1 - offset) // s.
        """
        for axis, written in enumerate(self.operands[0]):
            if written.terms == dimension.terms:
                return Span(dimension.size, axis)
            outer = next(iter(written.terms), "")
            if outer in dimension.terms:
                per, step = written.terms[outer], dimension.terms[outer]
                first = -((written.offset + self._excess(written, outer)) // per)
                last = (per - 1 - written.offset) // per
                extent = 1 + step * (last - first) + self._excess(dimension, outer)
                return Span(dimension.size, axis, per, step, dimension.offset + step * first, extent)
        return Span(dimension.size, summed if self.summed in dimension.terms else None)

    def _excess(self, dimension: AffineDimension, outer: str) -> int:
        """Return how far the loops inside `outer` reach from their first element to their last."""
        return sum((self.loops[loop] - 1) * times for loop, times in dimension.terms.items() if loop != outer)
