"""A mapper that maps nothing: what a stack costs at least, run as the cost model runs it.

Where maps, caches and weights lie, and what is copied, depends on no mapping, as long as every tile has one. So a stack
that is run with floors in place of what its mappings cost has a bound much nearer its cost than that of its layers, in
a fiftieth of the time: it knows how much room the maps that lie on the chip leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, Operand
from onchip.cost.layer.cost import LayerCost
from onchip.cost.layer.latency import Latency
from onchip.solve.stacks.problem_floors import ProblemFloors, surely_maps, surely_maps_not


class UnsureError(Exception):
    """A tile may have no mapping where its operands are tried first, and then they lie elsewhere."""


@dataclass(slots=True)
class Rehearsal:
    """Answers what is `known` as it is, anything else with the least energy and no cycles; raises UnsureError."""

    floors: ProblemFloors
    known: Mapping[LayerProblem, LayerCost | None]
    _answers: dict[LayerProblem, LayerCost | UnsureError | None] = field(default_factory=dict)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return a cost whose energy in pJ no mapping is below, None where there is no mapping.

        Raises UnsureError where that is not known.
        """
        if problem in self.known:
            return self.known[problem]
        if problem not in self._answers:
            self._answers[problem] = self._answer(problem)
        answer = self._answers[problem]
        if isinstance(answer, UnsureError):
            raise answer
        return answer

    def _answer(self, problem: LayerProblem) -> LayerCost | UnsureError | None:
        if surely_maps_not(problem):
            return None
        if not surely_maps(problem):
            return UnsureError()
        energy_pj = {(DRAM, str(Operand.INPUT)): self.floors.energy_pj(problem)}
        return LayerCost(LayerMapping(()), 0, (), energy_pj, 0.0, Latency(0, 0, 0, 0, 0, 0), 1)
