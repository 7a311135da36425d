"""How often, and over how many operators, each tensor is resident: what static placement limits."""

from __future__ import annotations

from onchip.answer.problem import Placement, Problem
from onchip.ir.tensor import Tensor
from onchip.verify.reporting import Reporting
from onchip.verify.rules import Rule


class Stays:
    """The residencies of each tensor that have ended, as the numbers of operators that ran in them."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._operators: dict[str, list[int]] = {tensor.name: [] for tensor in problem.counted_tensors}

    def end(self, tensor: Tensor, operators: int) -> None:
        """A residency of `tensor` ends in which so many operators ran."""
        self._operators[tensor.name].append(operators)

    def each_is_the_only_one_or_for_one_operator(self, report: Reporting) -> None:
        """One residency of any length, or any number of which none contains two operators."""
        if self._problem.placement is Placement.STATIC:
            for tensor, operators in self._operators.items():
                if len(operators) > 1 and max(operators) > 1:
                    detail = (
                        f"it has {len(operators)} residencies, one of them over {max(operators)} operators; "
                        "static placement allows one in all, or any number over one operator each"
                    )
                    report.of_plan(Rule.PLACEMENT_NOT_STATIC, tensor, detail)
