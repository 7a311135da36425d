"""How results of parts of what is reduced become one, and what stands in place of what a part does not read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from onchip.errors import GraphError
from onchip.formats.onnx.program import Array
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Range, Region
from onchip.ops.contractions.contractions import kept_dimensions, longest_reduced
from onchip.ops.pointwise.partial_sums import COMPARED, MULTIPLIED
from onchip.ops.registry.outline import Outline
from onchip.transform.slices.tile_bytes import Bytes


@dataclass(frozen=True, slots=True)
class PartCombination:
    """`combine` of two parts' results is that of both together; a `neutral` element changes no result."""

    combine: Callable[[Array, Array], Array]
    neutral: Any
    dtype: np.dtype[np.generic]


@dataclass(frozen=True, slots=True)
class ReducedPart:
    """Where a part of a reduction lies in the input as it is seen: a range of its longest reduced dimension."""

    seen: tuple[int, ...]
    kept: Mapping[int, int]
    longest: int
    part: Range

    @classmethod
    def of(cls, original: Operator, graph: Graph, part: Range) -> Self:
        """Raise GraphError for an operator whose kept dimensions are not known: it is never cut."""
        outline = Outline(original, graph, is_model=True)
        seen = outline.shapes()[0]
        kept = kept_dimensions(original, seen, outline.written)
        longest = None if kept is None else longest_reduced(seen, kept)
        if kept is None or longest is None:
            raise GraphError("it has no parts", place=f"operator {original.name!r}", expected="a reduction")
        return cls(seen, kept, longest, part)

    def alone(self, content: Bytes, combination: PartCombination) -> Array:
        """The input with the neutral element beside the part: bands may hold more of a view than the part."""
        values = content.view(combination.dtype).reshape(self.seen)
        found = np.full_like(values, combination.neutral)
        here = self._at(slice(*self.part))
        found[here] = values[here]
        return found

    def go_on(self, values: Array, region: Region, before: Array) -> None:
        """Put what is summed up so far beside the part, before it if there is something before."""
        start, stop = self.part
        here = list(self._at(start - 1 if start else stop))
        for at in range(len(here)):
            if at in self.kept:
                here[at] = slice(*region[self.kept[at]])
            elif at != self.longest:
                here[at] = 0
        place = tuple(here)
        values[place] = before.reshape(values[place].shape)

    def _at(self, along: slice | int) -> tuple[slice | int, ...]:
        return tuple(along if at == self.longest else slice(None) for at in range(len(self.seen)))


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
