"""The best mapping of a nest at its homes in the room that is left: proven, or in time the best that LOMA has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Result, Status
from onchip.arch.accelerator import Accelerator
from onchip.cost.schedule.nest_cost import nest_cost
from onchip.errors import InputError
from onchip.solve.mapping.cache import MappingCache
from onchip.solve.mapping.layer_at import map_layer_at
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Limits, Run
from onchip.solve.schedule.mapped import MappedNest, Room
from onchip.solve.schedule.runs import NestPlace

SHARE_OF_A_NEST: Final = 0.2
"""Of the time that is left, for the proof of one nest's mapping."""
LOMA_SECONDS: Final = 1.0
LEAST_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class BestMapper:
    """Asks the exact mapper for each nest, and LOMA for what it has not proven in time."""

    accelerator: Accelerator
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None

    def __call__(self, nest: NestPlace, room: Room) -> MappedNest | None:
        """None where nothing fits, or nothing was found in time."""
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        mapping = self._mapping(problem)
        if mapping is None:
            return None
        return MappedNest(mapping, nest_cost(problem, mapping))

    def _mapping(self, problem: LayerProblem) -> LayerMapping | None:
        """What is not proven in its share of the time may be no better than what LOMA finds in milliseconds."""
        share = SHARE_OF_A_NEST * self.run.seconds_left
        proven = self._asked("exact", problem, share)
        if proven is not None and proven.status in (Status.OPTIMAL, Status.INFEASIBLE):
            return proven.answer
        found = [one for one in (proven, self._asked("loma", problem, LOMA_SECONDS)) if one is not None]
        answers = [one for one in found if one.answer is not None and one.objective_value is not None]
        return min(answers, key=lambda one: one.objective_value or 0).answer if answers else None

    def _asked(self, name: str, problem: LayerProblem, seconds: float) -> Result[LayerMapping] | None:
        is_limited = self.run.limits.time_limit_seconds is not None
        limits = Limits(max(seconds, LEAST_SECONDS)) if is_limited else Limits()
        own = Run(limits, interrupt=self.run.interrupt)
        try:
            return map_layer_at(problem, self.objective, own, name, self.cache)
        except InputError:
            return None
