"""All that a report shows: handed in, computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from onchip.answer.document import Claim, PlanDocument
from onchip.answer.problem import Problem
from onchip.answer.result import Status
from onchip.model.capacity.bounds import OperatorNeed
from onchip.model.timeline.plan_timeline import Timeline
from onchip.reports.explain.history import History
from onchip.reports.explain.reload_causes import ReloadCause, reload_causes
from onchip.verify.figures import Figures


@dataclass(frozen=True, slots=True)
class BaselinePlan:
    """What a baseline method made of the same problem; `figures` is None where it found no plan."""

    name: str
    status: Status
    figures: Figures | None


@dataclass(frozen=True)
class Findings:
    """A verified plan, what the verifier counted in it, and whatever else is known.

    `facts` are lines for the summary that only the run that made the plan knows, such as its seconds;
    `no_timeline` says why there is none.
    """

    problem: Problem
    document: PlanDocument
    figures: Figures
    required: OperatorNeed
    command_line: str
    facts: tuple[tuple[str, str], ...] = ()
    baselines: tuple[BaselinePlan, ...] = ()
    timeline: Timeline | None = None
    no_timeline: str = "no accelerator was named: --accelerator adds it"
    history: History = field(init=False)
    reload_causes: tuple[ReloadCause, ...] = field(init=False)

    def __post_init__(self) -> None:
        history = History(self.problem, self.document.answer)
        object.__setattr__(self, "history", history)
        object.__setattr__(self, "reload_causes", reload_causes(history))

    @property
    def claim(self) -> Claim | None:
        """What the maker of the plan says of it."""
        return self.document.claim
