"""The interface between the cost model of fused groups and a layer mapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from onchip.answer.layer_problem import LayerProblem
from onchip.model.layer.cost import LayerCost

Mapper: TypeAlias = Callable[[LayerProblem], LayerCost | None]
"""Returns the cost of a layer's best mapping, or None if none fits."""
