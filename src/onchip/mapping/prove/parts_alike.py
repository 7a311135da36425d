"""Parts of one dimension, or of several, that are alike: how many there are, and what all of them have together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LackingSide:
    """Of parts alike those of one dimension, by cell: how many there are, and what the longest has.

    All of them together lack so many indices of as many longest ones; infinite where that is not known.
    """

    parts: NDArray[np.float64]
    longest: NDArray[np.float64]
    lacks: NDArray[np.float64]


@dataclass(frozen=True)
class PartsAlike:
    """Some parts of a dimension, by cell: how many at most, their length at most, and what all have together.

    The length of each is a multiple of `whole`. Of several dimensions, `sides` are those along which they may lack
    indices; along any other they lack none.
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
        """Return those of one dimension."""
        each = np.broadcast_to(lacks, np.broadcast_shapes(parts.shape, longest.shape))
        return cls(parts, longest, together, whole, (LackingSide(parts, longest, each),) if each.any() else ())

    def beside(self, other: PartsAlike) -> PartsAlike:
        """Return tiles that have one of these along some dimensions and one of the others along others."""
        return PartsAlike(
            self.parts * other.parts,
            self.longest * other.longest,
            self.together * other.together,
            self.whole * other.whole,
            self.sides + other.sides,
        )

    def reshaped(self, shape: tuple[int, ...]) -> PartsAlike:
        """Return the same in another shape of as many cells."""
        each = (self.parts, self.longest, self.together, self.whole)
        parts, longest, together, whole = (one.reshape(shape) for one in each)
        sides = (
            LackingSide(*(one.reshape(shape) for one in (own.parts, own.longest, own.lacks))) for own in self.sides
        )
        return PartsAlike(parts, longest, together, whole, tuple(sides))
