"""What stands for the sizes and values that a network file leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bindings:
    """Sizes of symbolic dimensions, shapes of network inputs, and inputs of one value for ever, each by name.

    An input with a value is a constant: what follows from it alone is computed when the network is read. The value is
    one number, which all elements have, or as many as there are elements.
    """

    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)

    @property
    def first_option(self) -> str | None:
        """The option of the command line that says the first of them; None where nothing is bound."""
        options = (("--dim", self.dims), ("--shape", self.shapes), ("--value", self.values))
        return next((option for option, bound in options if bound), None)
