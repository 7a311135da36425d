"""Recomputation (rematerialisation): whether it is allowed, for which operators, and at what cost."""

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
"""Operator kinds that draw random numbers, in ONNX, ATen and TFLite: a repeated run would write other values."""


class Recompute(StrEnum):
    """The option that allows or forbids running an operator more than once."""

    NEVER = "never"
    ALLOWED = "allowed"


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The permission to run operators again; `costs` maps an operator's name to the cost of each additional run.

    Costs are in the objective's unit; an operator without a cost runs again for free. Raises UsageError for a negative
    cost.
    """

    costs: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, cost in self.costs.items():
            if cost < 0:
                raise UsageError(f"it is {cost}", place=f"costs.{name}", expected="at least 0")

    def cost(self, operator: Operator) -> int:
        """Return the cost of one more run of an operator, in the objective's unit."""
        return self.costs.get(operator.name, 0)
