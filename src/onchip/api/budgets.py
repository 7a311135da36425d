"""M_R, M_H and M_P: the capacities of the COSMA evaluation, computed from the network."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onchip.answer.problem import Count, Problem
from onchip.answer.result import SearchResult, Status
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.memory.spill.min_peak import min_peak_bytes
from onchip.memory.spill.states import least_peak_with_states
from onchip.model.capacity.bounds import OperatorNeed, greatest_need
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.search.strategy.start import RunStarter, silent_run

STATES_TO_ADVISE: Final = 200_000
"""Search limit for stating M_P in an error message: usually some seconds."""


class CapacityBudget(StrEnum):
    """The capacity budgets M_R, M_H and M_P of the COSMA evaluation.

    M_R is the largest single-operator working set, M_P the minimum peak without spills, and M_H their mean, rounded
    down.
    """

    M_R = "m_r"
    M_H = "m_h"
    M_P = "m_p"


@dataclass(frozen=True, slots=True)
class Budgets:
    """The capacity budgets of a network: `required` is M_R; `least_peak` is the search result for M_P."""

    required: OperatorNeed
    least_peak: SearchResult[tuple[int, ...]]

    @property
    def required_bytes(self) -> int:
        """Return M_R in bytes: the smallest capacity in which every operator can run."""
        return self.required.need_bytes

    @property
    def min_peak_bytes(self) -> int | None:
        """Return M_P in bytes, or None if it is not proven."""
        return self.least_peak.objective_value if self.least_peak.status is Status.OPTIMAL else None

    def capacity_bytes(self, budget: CapacityBudget) -> int | None:
        """Return the capacity of a budget in bytes, or None if it depends on an unknown M_P."""
        if budget is CapacityBudget.M_R:
            return self.required_bytes
        if self.min_peak_bytes is None or budget is CapacityBudget.M_P:
            return self.min_peak_bytes
        return (self.required_bytes + self.min_peak_bytes) // 2

    @property
    def min_peak_in_words(self) -> str:
        """Return M_P, or its known range, as a sentence."""
        if self.min_peak_bytes is not None:
            return f"M_P is {self.min_peak_bytes:,} bytes"
        if self.least_peak.objective_value is None:
            return f"M_P is at least {self.least_peak.lower_bound:,} bytes"
        return f"M_P is {self.least_peak.lower_bound:,} to {self.least_peak.objective_value:,} bytes"


def roomy_problem(graph: Graph, count: Count, alignment_bytes: int = 1) -> Problem:
    """Return a problem whose single scratchpad holds all counted tensors together."""
    cramped = Problem(graph, (Memory("sram", 1, alignment_bytes),), count=count)
    padded = (-(-tensor.size_bytes // alignment_bytes) * alignment_bytes for tensor in cramped.counted_tensors)
    return Problem(graph, (Memory("sram", max(1, sum(padded)), alignment_bytes),), count=count)


def budgets_of(
    problem: Problem, limits: Limits, start: RunStarter = silent_run, deadline: Deadline | None = None
) -> Budgets:
    """Return M_R, and M_P as far as the limits allow; their time counts from now if there is no deadline yet."""
    with start(limits, deadline or Deadline.after(limits.time_limit_seconds)) as run:
        return Budgets(greatest_need(problem), least_peak_with_states(problem, run, min_peak_bytes))
