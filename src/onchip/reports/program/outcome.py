"""What the program found, as it is shown: one noun per verb."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.document import PlanDocument
from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.arch.sharing import Share
from onchip.model.capacity.bounds import OperatorNeed
from onchip.model.timeline.array_waits import LatencyParts
from onchip.model.timeline.plan_timeline import stated_timeline
from onchip.reports.explain.history import History
from onchip.verify.figures import Figures
from onchip.verify.verifier import Verdict


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long each part took; `budget` is the time for M_P where the capacity asked for it."""

    read: float
    budget: float
    solve: float
    verify: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A planned network. `document` and `figures` are None where there is no plan.

    `required` is M_R; `min_peak_bytes` is M_P, None where it was not computed.
    """

    problem: Problem
    result: Result[Plan]
    seed: int
    seconds: Seconds
    required: OperatorNeed
    min_peak_bytes: int | None
    figures: Figures | None = None
    document: PlanDocument | None = None

    @property
    def answer(self) -> Plan | None:
        """The plan; None where there is none."""
        return self.result.answer

    @property
    def gap(self) -> float | None:
        """How far the plan may be from the best, by its objective value; None where there is none."""
        return self.result.gap

    @property
    def capacity_bytes(self) -> int:
        """The bytes of all scratchpads together."""
        return sum(memory.capacity_bytes for memory in self.problem.memories)

    @property
    def history(self) -> History | None:
        """What happens in the scratchpads; None where there is no plan."""
        return None if self.document is None else History(self.problem, self.document.answer)

    @property
    def latency_parts(self) -> LatencyParts | None:
        """What the time of a plan goes by with that says how long everything lasts; None of any other."""
        if self.document is None or self.problem.durations is None:
            return None
        return stated_timeline(self.problem, self.document.answer).parts

    @property
    def need_bytes(self) -> int:
        """The least capacity that is not ruled out: M_R, or the proven least arena where nothing may spill.

        What fits no several scratchpads might fit one of their size.
        """
        proven = 0
        if self.problem.objective is Objective.PEAK:
            beyond = self.capacity_bytes + 1 if len(self.problem.memories) == 1 else 0
            proven = max(self.result.lower_bound, beyond)
        return max(self.required.need_bytes, proven)


@dataclass(frozen=True, slots=True)
class Check:
    """A plan file held against its network, whose graph has the hash `sha256`."""

    document: PlanDocument
    problem: Problem
    sha256: str
    verdict: Verdict

    @property
    def graph_differs(self) -> bool:
        """Whether the plan says it is for another graph."""
        return self.document.graph.sha256 not in (None, self.sha256)

    @property
    def is_legal(self) -> bool:
        """Whether nothing at all is to be said against the plan."""
        return not self.verdict.violations and not self.graph_differs


@dataclass(frozen=True, slots=True)
class SharedNeed:
    """M_R and M_P in bytes (None where that is not proven) of a network in which outputs share bytes with inputs."""

    share: Share
    required_bytes: int
    min_peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class Description:
    """What is in a network. `required` is M_R, `least_peak` is M_P as far as it was found.

    `needs` are both for each way of sharing bytes; empty where nothing can be shared.
    """

    problem: Problem
    required: OperatorNeed
    least_peak: Result[tuple[int, ...]]
    compulsory_bytes: int
    needs: tuple[SharedNeed, ...] = ()

    @property
    def min_peak_bytes(self) -> int | None:
        """M_P, or None where it is not proven."""
        return self.least_peak.objective_value if self.least_peak.status is Status.OPTIMAL else None


def beyond_traffic(figures: Figures) -> tuple[str, ...]:
    """Return what an objective of transfers counts besides non-compulsory transfers, in words."""
    state = ("state loaded and written",) if figures.states_loaded else ()
    return (*state, "operators run again") if figures.recomputation_cost else state
