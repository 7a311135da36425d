"""Bindings for the sizes and values that a network file leaves open."""

from __future__ import annotations

import shlex
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
    def first_option(self) -> str | None:
        """Return the command-line option of the first binding; None if nothing is bound."""
        options = (("--dim", self.dims), ("--shape", self.shapes), ("--value", self.values))
        return next((option for option, bound in options if bound), None)

    @property
    def options(self) -> str:
        """Return the bindings as command-line options, quoted for a shell."""
        dims = [("--dim", f"{symbol}={size}") for symbol, size in self.dims.items()]
        shapes = [("--shape", f"{name}={'x'.join(map(str, shape))}") for name, shape in self.shapes.items()]
        values = [("--value", f"{name}={','.join(map(str, numbers))}") for name, numbers in self.values.items()]
        return shlex.join(word for option in (*dims, *shapes, *values) for word in option)
