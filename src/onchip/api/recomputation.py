"""What running operators again costs, where a plan is asked for in which they may."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.document import Reading
from onchip.answer.problem import Objective
from onchip.answer.recomputation import Recomputation, Recompute
from onchip.api.durations import MAPPING
from onchip.arch.accelerator import Accelerator
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.model.program.recomputation import recomputation_on
from onchip.model.timeline.operator_cycles import MACS


@dataclass(frozen=True, slots=True)
class RunsAgain:
    """Whether operators may run again, as the reading says, and how that is priced.

    `cost` is the model of the cycles of operators that state none: without a name of its own that of `onchip time`.
    """

    reading: Reading
    objective: Objective
    cost: str
    price: float | None

    def on(self, accelerator: Accelerator, graph: Graph) -> Recomputation | None:
        """Return what further runs cost, None where there are none; raises UsageError for what contradicts that."""
        if self.reading.recompute is Recompute.ALLOWED:
            cost = MACS if self.cost == MAPPING else self.cost
            return recomputation_on(accelerator, graph, self.objective, cost, self.price)
        if self.price is not None:
            raise UsageError("nothing runs again", place="--recompute-price", expected="--recompute allowed")
        if self.objective is Objective.RECOMPUTATION:
            place = f"--objective {self.objective}"
            raise UsageError("nothing may run again", place=place, expected="--recompute allowed")
        return None
