"""What the model of fused stacks asks of a mapper of layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from onchip.arch.accelerator import Accelerator
from onchip.cost.layer.cost import LayerCost
from onchip.ir.layer import Layer

Mapper: TypeAlias = Callable[[Layer, Accelerator], LayerCost | None]
"""The cost of the best mapping of a layer; None where nothing fits. The accelerator's `homes` are to be heeded."""


@dataclass(frozen=True, slots=True)
class Memoized:
    """A mapper that is asked once for equal layers on equal machines: across tile types, tile sizes and modes."""

    mapper: Mapper
    known: dict[tuple[Layer, Accelerator], LayerCost | None] = field(default_factory=dict)

    def __call__(self, layer: Layer, accelerator: Accelerator) -> LayerCost | None:
        """As the mapper itself."""
        key = layer, accelerator
        if key not in self.known:
            self.known[key] = self.mapper(layer, accelerator)
        return self.known[key]
