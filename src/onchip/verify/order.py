"""A check of the operator order for problems that prescribe the given order."""

from __future__ import annotations

from dataclasses import dataclass, field

from onchip.answer.problem import Order, Problem
from onchip.ir.operator import Operator
from onchip.verify.reporting import Reporting
from onchip.verify.rules import Rule


@dataclass(slots=True)
class GivenOrder:
    """A check that compares each operator with its predecessor only; one operator moved is one violation."""

    problem: Problem
    report: Reporting
    _position: dict[str, int] = field(init=False)
    _last: int = 0

    def __post_init__(self) -> None:
        self._position = {operator.name: index for index, operator in enumerate(self.problem.graph.operators)}

    def runs(self, operator: Operator) -> None:
        """Report an operator whose first run follows the run of an operator that the given order places later."""
        position = self._position[operator.name]
        if self.problem.order is Order.GIVEN and position < self._last:
            later = self.problem.graph.operators[self._last].name
            detail = f"it runs after {later!r}; the given order says before"
            self.report.violation(Rule.OUT_OF_ORDER, operator.name, detail)
        self._last = position
