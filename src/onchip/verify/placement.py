"""The number and length of each tensor's residencies, which static placement limits."""

from __future__ import annotations

from onchip.answer.problem import Placement, Problem
from onchip.ir.tensor import Tensor
from onchip.verify.reporting import Reporting
from onchip.verify.rules import Rule


class Stays:
    """The finished residencies of each tensor, as the number of operators that ran during each."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._operators: dict[str, list[int]] = {tensor.name: [] for tensor in problem.counted_tensors}

    def end(self, tensor: Tensor, operators: int) -> None:
        """Record the end of a residency of `tensor` during which `operators` operators ran."""
        self._operators[tensor.name].append(operators)

    def each_is_the_only_one_or_for_one_operator(self, report: Reporting) -> None:
        """Report tensors that break static placement: several residencies, and one spans several operators."""
        if self._problem.placement is Placement.STATIC:
            for tensor, operators in self._operators.items():
                if len(operators) > 1 and max(operators) > 1:
                    detail = (
                        f"it has {len(operators)} residencies, one of them over {max(operators)} operators; "
                        "static placement allows one in all, or any number over one operator each"
                    )
                    report.of_plan(Rule.PLACEMENT_NOT_STATIC, tensor, detail)
