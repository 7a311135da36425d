"""The planning target: a size, a budget of the COSMA evaluation (M_R, M_H, M_P), or an accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from onchip.answer.problem import Count, Objective, Problem, Transfers
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.words import exact_bytes, short_bytes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory, Operand
from onchip.errors import AcceleratorError, InputError, OnchipError, UsageError
from onchip.ir.graph import Graph
from onchip.memory.effort import STEP
from onchip.memory.spill.min_peak import min_peak_bytes
from onchip.memory.spill.states import least_peak_with_states
from onchip.model.capacity.bounds import OperatorNeed, greatest_need
from onchip.model.program.recomputation import TIMED_OR_POWERED, transfers_of
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.search.strategy.start import NoAnswerError, RunStarter, StoppedError, silent_run


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


@dataclass(frozen=True, slots=True)
class Target:
    """A target: `sram` (bytes, or a COSMA budget) or `accelerator` (a bundled name or a file), or neither."""

    sram: int | CapacityBudget | None = None
    accelerator: str | Accelerator | None = None
    alignment_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.sram is not None and self.accelerator is not None:
            raise UsageError("a memory size and an accelerator are both given", place="target", expected="only one")

    @classmethod
    def of_text(cls, sram: str | None, accelerator: str | None, alignment_bytes: int | None) -> Self:
        """Return the target of a user's text, such as `512KiB` or `m_r`; raises InputError for invalid text."""
        if sram is None or sram.lower() in tuple(CapacityBudget):
            return cls(None if sram is None else CapacityBudget(sram.lower()), accelerator, alignment_bytes)
        from onchip.arch.sizes import parse_size

        try:
            size = parse_size(sram)
        except InputError as error:
            what = f"{sram!r} is neither a size nor a budget"
            expected = f"{error.expected}; or a budget ({', '.join(CapacityBudget)})"
            raise UsageError(what, place="target", expected=expected) from None
        return cls(size, accelerator, alignment_bytes)

    @property
    def is_open(self) -> bool:
        """Return True if neither a size nor an accelerator is given."""
        return self.sram is None and self.accelerator is None

    def transfers_on(self, accelerator: Accelerator, objective: Objective) -> Transfers:
        """Return the cost of transfers on the target's accelerator.

        Raises UsageError for an objective that needs more than a size, AcceleratorError for a file that lacks
        information.
        """
        if self.accelerator is None and objective in TIMED_OR_POWERED:
            what = f"{objective} needs transfer rates, which a memory size does not have"
            raise UsageError(what, place=f"minimize {objective}", expected="an accelerator, or traffic")
        with self.named_in_errors():
            return transfers_of(accelerator, objective)

    def counted(self, objective: Objective) -> Count:
        """Return the tensors that a plan counts by default; raises InputError for an accelerator's file.

        The latency objective counts parameters too, as these are most of the traffic. If no scratchpad may hold
        weights, operators stream them, and their cycles include that (`durations_of`).
        """
        if objective is not Objective.LATENCY:
            return Count.ACTIVATIONS
        if self.accelerator is None:
            return Count.ALL
        from onchip.formats.foreign_files import load_any_accelerator

        scratchpads = load_any_accelerator(self.accelerator).scratchpads
        return Count.ALL if any(Operand.WEIGHT in memory.holds for memory in scratchpads) else Count.ACTIVATIONS

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Add the accelerator's file to each AcceleratorError that the context raises."""
        try:
            yield
        except AcceleratorError as error:
            from onchip.formats.foreign_files import accelerator_text

            raise error if self.accelerator is None else error.in_file(accelerator_text(self.accelerator)) from None


@dataclass(frozen=True, slots=True)
class TargetFinder:
    """A converter from targets to accelerators for one graph."""

    graph: Graph
    count: Count
    limits: Limits = field(default_factory=Limits)
    start: RunStarter = silent_run
    deadline: Deadline | None = None

    def accelerator(self, target: Target, objective: Objective) -> tuple[Accelerator, int | None]:
        """Return the accelerator, and M_P if it was computed for that; raises NoAnswerError if M_P took too long.

        Without a size or an accelerator, the peak objective uses a scratchpad that holds everything; other objectives
        raise UsageError, which states M_R and M_P.
        """
        from onchip.formats.foreign_files import load_any_accelerator

        alignment_bytes = target.alignment_bytes or 1
        if target.accelerator is not None:
            accelerator = load_any_accelerator(target.accelerator)
            return replace(accelerator, scratchpads=_aligned(accelerator.scratchpads, target)), None
        if isinstance(target.sram, CapacityBudget):
            return self._accelerator_of_budget(target.sram, alignment_bytes)
        if target.sram is not None:
            return one_scratchpad(target.sram, alignment_bytes), None
        if objective is Objective.PEAK:
            memory = roomy_problem(self.graph, self.count, alignment_bytes).memories[0]
            return one_scratchpad(memory.capacity_bytes, alignment_bytes), None
        raise self._no_scratchpad(alignment_bytes)

    def memories(self, target: Target, planned: tuple[Memory, ...]) -> tuple[Memory, ...]:
        """Return a plan's own memories, resized or replaced by the target; raises UsageError to resize several."""
        own = _aligned(planned, target)
        if target.is_open:
            return own
        if target.sram is None:
            return self.accelerator(target, Objective.TRAFFIC)[0].scratchpads
        if len(own) != 1:
            raise UsageError(f"the plan has {len(own)} memories", place="target", expected="a plan with one")
        sized = replace(target, alignment_bytes=own[0].alignment_bytes)
        capacity_bytes = self.accelerator(sized, Objective.TRAFFIC)[0].scratchpads[0].capacity_bytes
        return (replace(own[0], capacity_bytes=capacity_bytes),)

    def _accelerator_of_budget(self, budget: CapacityBudget, alignment_bytes: int) -> tuple[Accelerator, int | None]:
        problem = roomy_problem(self.graph, self.count, alignment_bytes)
        if budget is CapacityBudget.M_R:
            return one_scratchpad(greatest_need(problem).need_bytes, alignment_bytes), None
        budgets = budgets_of(problem, self.limits, self.start, self.deadline)
        capacity_bytes = budgets.capacity_bytes(budget)
        if capacity_bytes is None:
            raise _no_budget(budget, budgets)
        return one_scratchpad(capacity_bytes, alignment_bytes), budgets.min_peak_bytes

    def _no_scratchpad(self, alignment_bytes: int) -> UsageError:
        problem = roomy_problem(self.graph, self.count, alignment_bytes)
        budgets = budgets_of(problem, replace(self.limits, node_limit=STEP.whole_states), self.start, self.deadline)
        required = f"M_R is {_in_both(budgets.required_bytes)}, set by operator {budgets.required.operator.name!r}"
        error = UsageError(
            f"a scratchpad is required; {required}; {_least_peak_in_words(budgets)}",
            expected="a memory size or an accelerator as `target`",
        )
        error.try_next = ("m_r", "m_p", "simba")
        return error


def _in_both(size_bytes: int) -> str:
    """Return the size in short form and to the byte."""
    short, exact = short_bytes(size_bytes), exact_bytes(size_bytes)
    return exact if short == exact else f"{short} ({exact})"


def _least_peak_in_words(budgets: Budgets) -> str:
    if budgets.min_peak_bytes is not None:
        return f"M_P is {_in_both(budgets.min_peak_bytes)}"
    least, most = budgets.least_peak.lower_bound, budgets.least_peak.objective_value
    return f"M_P is at least {_in_both(least)}" + ("" if most is None else f", at most {_in_both(most)}")


def _no_budget(budget: CapacityBudget, budgets: Budgets) -> OnchipError:
    stopped_by = budgets.least_peak.stopped_by
    kind = StoppedError if stopped_by is Stop.INTERRUPTED else NoAnswerError
    return kind(
        f"{budgets.min_peak_in_words}; not proven: {stopped_by}",
        place=f"target {budget}",
        expected="more time, or a size in bytes",
    )


def one_scratchpad(capacity_bytes: int, alignment_bytes: int = 1) -> Accelerator:
    """Return the accelerator that `--sram` stands for: a single scratchpad that holds everything."""
    return Accelerator("sram", (Memory("sram", capacity_bytes, alignment_bytes),))


def _aligned(memories: tuple[Memory, ...], target: Target) -> tuple[Memory, ...]:
    if target.alignment_bytes is None:
        return memories
    return tuple(replace(memory, alignment_bytes=target.alignment_bytes) for memory in memories)
