"""The channel axis of a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor

_RANK_WITH_BATCH: Final = 4
_CONVOLUTIONS: Final = frozenset({"Conv", "ConvInteger", "QLinearConv"})
"""Kinds whose weights have a filter per output channel along their first dimension."""


@dataclass(frozen=True)
class Channels:
    """The channels of a graph's tensors: dimension 1 in four or more dimensions, else dimension 0.

    The channels of a convolution's filters are dimension 0 too: those of its output, not of its input.
    """

    graph: Graph

    def count(self, tensor: Tensor) -> int | None:
        """Return the number of channels of a tensor, or None without a shape."""
        return tensor.shape[self.axis(tensor)] if tensor.shape else None

    def axis(self, tensor: Tensor) -> int:
        """Return the index of the channel dimension of a tensor."""
        return 1 if _has_batch(tensor) and tensor.name not in self._filters else 0

    @cached_property
    def _filters(self) -> frozenset[str]:
        return frozenset(name for operator in self.graph.operators for name in self._filters_of(operator))

    def _filters_of(self, operator: Operator) -> tuple[str, ...]:
        if operator.kind not in _CONVOLUTIONS:
            return ()
        return tuple(name for name in operator.parameters if _has_batch(self.graph.tensor[name]))[:1]


def _has_batch(tensor: Tensor) -> bool:
    return len(tensor.shape or ()) >= _RANK_WITH_BATCH
