"""The same problem with another order as the given one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onchip.answer.problem import Order, Problem
from onchip.solve.ordering.min_peak import min_peak_bytes
from onchip.solve.run.limits import Run
from onchip.solve.run.stage import without_figures


def with_given_order(problem: Problem, order: Sequence[int]) -> Problem:
    """Return the problem with its operators in this (topological) order, which is now the given one.

    Its plans are plans of `problem` in any order.
    """
    operators = tuple(problem.graph.operators[operator] for operator in order)
    return replace(problem, graph=replace(problem.graph, operators=operators), order=Order.GIVEN)


def with_order_settled(problem: Problem, run: Run) -> Problem:
    """Return a problem that asks for an order of least peak with such an order given; any other as it is.

    If the least peak is not found in time, the given order stays.
    """
    if problem.order is not Order.MIN_PEAK:
        return problem
    least = min_peak_bytes(replace(problem, order=Order.FREE), without_figures(run))
    return with_given_order(problem, least.answer or range(len(problem.graph.operators)))
