"""Which of two operators runs first: a boolean for each pair of them that something depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onchip.model.lifetimes.bit_masks import bits, mask_of
from onchip.model.lifetimes.precedence import Precedence

if TYPE_CHECKING:
    from ortools.sat.python import cp_model, cp_model_helper

    Said: TypeAlias = cp_model_helper.Literal | bool
    """True or false, or a literal of the model."""


class OrderPairs:
    """Booleans of a CP-SAT model, which are those of an order where what is `linked` holds."""

    def __init__(self, model: cp_model.CpModel, precedence: Precedence) -> None:
        self._model = model
        self._precedence = precedence
        self._firsts: dict[tuple[int, int], cp_model.IntVar] = {}

    def is_before(self, earlier: int, later: int) -> Said:
        """Say whether one of two operators runs before the other; of a pair not heard of that is a new boolean."""
        known = self.if_known(earlier, later)
        if known is not None:
            return known
        pair = (min(earlier, later), max(earlier, later))
        self._firsts[pair] = self._model.new_bool_var("")
        return self._firsts[pair] if earlier < later else self._firsts[pair].negated()

    def if_known(self, earlier: int, later: int) -> Said | None:
        """Say whether one of two operators runs before the other, None of a pair that nothing depends on."""
        if self._precedence.before[later] >> earlier & 1:
            return True
        if earlier == later or self._precedence.before[earlier] >> later & 1:
            return False
        first = self._firsts.get((min(earlier, later), max(earlier, later)))
        if first is None:
            return None
        return first if earlier < later else first.negated()

    def link(self) -> None:
        """Who runs before another, those surely before it do so too; three do not run in a circle."""
        partners: dict[int, int] = {}
        for one, other in self._firsts:
            partners[one] = partners.get(one, 0) | 1 << other
            partners[other] = partners.get(other, 0) | 1 << one
        for operator, others in partners.items():
            for other in bits(others):
                for earlier in self._precedence.last_of(self._precedence.before[other] & others):
                    self._model.add_implication(self.is_before(other, operator), self.is_before(earlier, operator))
                third = partners[other] & others & ~mask_of(range(operator + 1)) & ~mask_of(range(other + 1))
                if other > operator:
                    for last in bits(third):
                        self._no_circle(operator, other, last)

    def _no_circle(self, *three: int) -> None:
        first, second, third = three
        circle = [self.is_before(first, second), self.is_before(second, third), self.is_before(third, first)]
        self._model.add_bool_or([negated(one) for one in circle])
        self._model.add_bool_or(circle)


def negated(said: Said) -> Said:
    """Return what is true where this is not."""
    return not said if isinstance(said, bool) else said.negated()
