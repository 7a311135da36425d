"""The interface between the cost model of fused groups and a layer mapper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from onchip.answer.layer_problem import LayerProblem
from onchip.model.layer.cost import LayerCost

Mapper: TypeAlias = Callable[[LayerProblem], LayerCost | None]
"""Returns the cost of a layer's best mapping, or None if none fits."""


@dataclass(frozen=True, slots=True)
class Memoized:
    """A mapper with a cache for equal problems, across tile types, tile sizes and overlap modes."""

    mapper: Mapper
    known: dict[LayerProblem, LayerCost | None] = field(default_factory=dict)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the mapper's answer, cached."""
        if problem not in self.known:
            self.known[problem] = self.mapper(problem)
        return self.known[problem]
