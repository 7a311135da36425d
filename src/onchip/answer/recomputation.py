"""Running operators again: whether that is allowed, which of them can, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from onchip.errors import UsageError
from onchip.ir.operator import Operator

DRAWING_KINDS: Final = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
    | {"bernoulli", "exponential", "multinomial", "native_dropout", "normal", "normal_functional", "rand", "rand_like"}
    | {"randint", "randint_like", "randn", "randn_like", "randperm", "uniform"}
    | {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"}
)
"""Kinds of operators that draw at random, in ONNX, ATen and TFLite: run again they would write other values."""


class Recompute(StrEnum):
    """Whether an operator may run more than once."""

    NEVER = "never"
    ALLOWED = "allowed"


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Operators may run again; `costs` say by name what each further run costs, in the objective's unit.

    An operator without a cost runs again for nothing. Raises UsageError for a cost below 0.
    """

    costs: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, cost in self.costs.items():
            if cost < 0:
                raise UsageError(f"it is {cost}", place=f"costs.{name}", expected="at least 0")

    def cost(self, operator: Operator) -> int:
        """Return what one more run of an operator costs, in the objective's unit."""
        return self.costs.get(operator.name, 0)
