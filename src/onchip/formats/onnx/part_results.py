"""How results of parts of what is reduced become one, and what stands in place of what a part does not read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onchip.facts.tile_bytes import Bytes, place_of
from onchip.formats.onnx.runtime import Array
from onchip.ir.tensor import Tensor
from onchip.lower.split.partial_sums import COMPARED, MULTIPLIED


@dataclass(frozen=True, slots=True)
class PartCombination:
    """`combine` of two parts' results is that of both together; a `neutral` element changes no result."""

    combine: Callable[[Array, Array], Array]
    neutral: Any
    dtype: np.dtype[np.generic]

    def filled(self, content: Bytes, tensor: Tensor, bands: Sequence[Tensor]) -> Bytes:
        """The bytes of a whole tensor of this type, with the neutral element outside of all bands."""
        values = content.view(self.dtype).reshape(tensor.shape or ())
        found = np.full_like(values, self.neutral)
        for band in bands:
            here = tuple(slice(*each) for each in place_of(band)[1])
            found[here] = values[here]
        return found.reshape(-1).view(np.uint8)


def combination_of(kind: str, dtype: np.dtype[np.generic]) -> PartCombination:
    """How parts of a reduction of this kind, over elements of this type, become one; sums but for a few kinds."""
    if kind in COMPARED:
        is_greatest = kind == "ReduceMax"
        combine = np.maximum if is_greatest else np.minimum
        if dtype.kind == "f":
            return PartCombination(combine, -np.inf if is_greatest else np.inf, dtype)
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        return PartCombination(combine, limits.min if is_greatest else limits.max, dtype)
    return PartCombination(np.multiply, 1, dtype) if kind in MULTIPLIED else PartCombination(np.add, 0, dtype)
