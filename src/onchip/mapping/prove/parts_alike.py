"""Sets of equal parts of one or several dimensions: their number and their total size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LackingSide:
    """A set's parts along one dimension, by cell: their number and the longest length.

    `lacks` is the number of indices that all parts together lack to be as long as the longest; infinite if unknown.
    """

    parts: NDArray[np.float64]
    longest: NDArray[np.float64]
    lacks: NDArray[np.float64]


@dataclass(frozen=True)
class PartsAlike:
    """A set of parts of a dimension, by cell: maximum number, maximum length, and total length.

    Each length is a multiple of `whole`. For several dimensions, `sides` are those along which parts may lack indices;
    along the others they lack none.
    """

    parts: NDArray[np.float64]
    longest: NDArray[np.float64]
    together: NDArray[np.float64]
    whole: NDArray[np.float64]
    sides: tuple[LackingSide, ...] = ()

    @classmethod
    def of_side(
        cls,
        parts: NDArray[np.float64],
        longest: NDArray[np.float64],
        together: NDArray[np.float64],
        whole: NDArray[np.float64],
        lacks: NDArray[np.float64] | float = np.inf,
    ) -> PartsAlike:
        """Return the set for one dimension."""
        each = np.broadcast_to(lacks, np.broadcast_shapes(parts.shape, longest.shape))
        return cls(parts, longest, together, whole, (LackingSide(parts, longest, each),) if each.any() else ())

    def beside(self, other: PartsAlike) -> PartsAlike:
        """Return the tiles that combine one of these parts with one of the other's, along different dimensions."""
        return PartsAlike(
            self.parts * other.parts,
            self.longest * other.longest,
            self.together * other.together,
            self.whole * other.whole,
            self.sides + other.sides,
        )

    def reshaped(self, shape: tuple[int, ...]) -> PartsAlike:
        """Return the set with its cells in another shape of the same size."""
        each = (self.parts, self.longest, self.together, self.whole)
        parts, longest, together, whole = (one.reshape(shape) for one in each)
        sides = (
            LackingSide(*(one.reshape(shape) for one in (own.parts, own.longest, own.lacks))) for own in self.sides
        )
        return PartsAlike(parts, longest, together, whole, tuple(sides))
