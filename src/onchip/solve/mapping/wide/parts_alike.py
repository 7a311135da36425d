"""Parts of one dimension, or of several, that are alike: how many there are, and what all of them have together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Row:
    """Where the indices lie that parts alike lack of the longest, by cell.

    All lack them along one dimension: in each of `rows` its parts lack so many indices together, each of `elements`.
    None `lacks` any where that is 0; infinite where it is not known.
    """

    lacks: NDArray[np.float64]
    rows: NDArray[np.float64]
    elements: NDArray[np.float64]


UNKNOWN: Final = Row(np.full(1, np.inf), np.ones(1), np.ones(1))
NOTHING: Final = Row(np.zeros(1), np.ones(1), np.ones(1))


@dataclass(frozen=True)
class PartsAlike:
    """Some parts of a dimension, by cell: how many at most, their length at most, and what all have together.

    The length of each is a multiple of `whole`.
    """

    parts: NDArray[np.float64]
    longest: NDArray[np.float64]
    together: NDArray[np.float64]
    whole: NDArray[np.float64]
    row: Row

    def beside(self, other: PartsAlike) -> PartsAlike:
        """Return tiles that have one of these along some dimensions and one of the others along others."""
        own, others = self.row, other.row
        lacks = np.where(np.minimum(own.lacks, others.lacks) == 0, np.maximum(own.lacks, others.lacks), np.inf)
        rows = np.where(own.lacks > 0, own.rows * other.parts, others.rows * self.parts)
        elements = np.where(own.lacks > 0, own.elements * other.longest, others.elements * self.longest)
        return PartsAlike(
            self.parts * other.parts,
            self.longest * other.longest,
            self.together * other.together,
            self.whole * other.whole,
            Row(lacks, rows, elements),
        )
