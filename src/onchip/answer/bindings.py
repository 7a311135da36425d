"""Bindings for the sizes and values that a network file leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bindings:
    """Sizes of symbolic dimensions, shapes of network inputs, and constant values of network inputs, each by name.

    An input with a value is a constant: tensors that depend on constants alone are computed when the network is read.
    The value is one number for all elements, or one number per element.
    """

    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)

    @property
    def words(self) -> str:
        """Return the bindings as arguments of the API: `dims={'batch': 1}`."""
        named = {"dims": self.dims, "shapes": self.shapes, "values": self.values}
        return ", ".join(f"{name}={dict(bound)}" for name, bound in named.items() if bound)
