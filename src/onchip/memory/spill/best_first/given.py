"""The same problem with another order as the given one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from onchip.answer.problem import Order, Problem
from onchip.memory.spill.best_first.min_peak import min_peak_bytes
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import without_figures

STATES_FOR_A_START: Final = 200_000
"""Mostly some seconds; an order of little peak is then found, if not proven."""
SHARE_FOR_A_START: Final = 0.1


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


def orders_to_start_from(problem: Problem, run: Run) -> Iterator[tuple[int, ...]]:
    """Yield the given order and, if orders are free, an order of least peak as far as it is soon found."""
    given = tuple(range(len(problem.graph.operators)))
    yield given
    if problem.order is not Order.FREE:
        return
    most = min(run.limits.node_limit or STATES_FOR_A_START, STATES_FOR_A_START)
    soon = without_figures(run.within(SHARE_FOR_A_START * run.seconds_left))
    least = min_peak_bytes(problem, replace(soon, limits=replace(run.limits, node_limit=most)))
    if least.answer is not None and least.answer != given:
        yield least.answer
