"""What the model of fused stacks asks of a mapper of layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from onchip.answer.layer_problem import LayerProblem
from onchip.model.layer.cost import LayerCost

Mapper: TypeAlias = Callable[[LayerProblem], LayerCost | None]
"""The best mapping of a layer and its cost; None where nothing fits."""


@dataclass(frozen=True, slots=True)
class Memoized:
    """A mapper that is asked once for equal problems: across tile types, tile sizes and modes."""

    mapper: Mapper
    known: dict[LayerProblem, LayerCost | None] = field(default_factory=dict)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """As the mapper itself."""
        if problem not in self.known:
            self.known[problem] = self.mapper(problem)
        return self.known[problem]
