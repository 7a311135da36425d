"""Sizes that follow from a network: COSMA's budgets M_R, M_H and M_P, and what lies between two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from onchip.api.budgets import Budget
from onchip.errors import UsageError
from onchip.sweeps.values import Scalar, number_of

End: TypeAlias = "Scalar | Budget"


@dataclass(frozen=True, slots=True)
class BudgetSize:
    """A size so far on the way from one end to another, each a budget or a size, as a network has them."""

    first: End
    last: End
    share: Fraction = Fraction(0)

    def bytes_of(self, size_of: Callable[[Budget], int]) -> int:
        """The size for a network whose budgets are these; raises UsageError where the way leads down."""
        low, high = (
            size_of(end) if isinstance(end, Budget) else int(number_of(end)) for end in (self.first, self.last)
        )
        if low > high:
            what = f"the range from {self.first} to {self.last} is empty: {low} to {high} bytes"
            raise UsageError(what, expected="a first value that is not above the last")
        return int(low + (high - low) * self.share)


def budget_named(value: object) -> Budget | None:
    """The budget of that name; None for anything else."""
    name = value.strip().lower() if isinstance(value, str) else ""
    return Budget(name) if name in tuple(Budget) else None


def budget_sizes(first: Scalar, last: Scalar, steps: int) -> tuple[BudgetSize, ...]:
    """So many sizes from one end to another, evenly apart, of which one is a budget at least."""
    ends = budget_named(first) or first, budget_named(last) or last
    return tuple(BudgetSize(*ends, Fraction(at, max(1, steps - 1))) for at in range(steps))
