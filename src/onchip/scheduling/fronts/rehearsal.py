"""A mapper that maps nothing: what a stack costs at least, run as the cost model runs it.

Where maps, caches and weights lie, and what is copied, depends on no mapping, as long as every tile has one. So a stack
that is run with floors in place of what its mappings cost has a bound much nearer its cost than that of its layers, in
a fiftieth of the time: it knows how much room the maps that lie on the chip leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.problem_floors import ProblemFloors, surely_maps, surely_maps_not
from onchip.model.layer.cost import LayerCost
from onchip.model.layer.latency import Latency
from onchip.scheduling.fronts.cost_table import UnsureError
from onchip.scheduling.fronts.roomier import Roomier


@dataclass(slots=True)
class Rehearsal:
    """Answers what is `known` as it is, anything else with the least energy and no cycles; raises UnsureError.

    What is known costs the least energy `by_energy`: then with less room nothing costs less.
    """

    floors: ProblemFloors
    known: Mapping[LayerProblem, LayerCost | None]
    by_energy: bool
    _floors_pj: dict[LayerProblem, float | None] = field(default_factory=dict)
    """Without what is known; infinite where there is surely no mapping, None where there may be none."""
    _roomier: Roomier = field(init=False)

    def __post_init__(self) -> None:
        self._roomier = Roomier(self.known)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return a cost whose energy in pJ no mapping is below, None where there is no mapping.

        Raises UnsureError where that is not known: then its operands may lie elsewhere.
        """
        if problem in self.known:
            return self.known[problem]
        if problem not in self._floors_pj:
            self._floors_pj[problem] = self._floor_pj(problem)
        floor_pj, roomier_pj = self._floors_pj[problem], self._with_more_room_pj(problem)
        if inf in (floor_pj, roomier_pj):
            return None
        if floor_pj is None:
            raise UnsureError
        energy_pj = {(DRAM, str(Operand.INPUT)): max(floor_pj, roomier_pj)}
        return LayerCost(LayerMapping(()), 0, (), energy_pj, 0.0, Latency(0, 0, 0, 0, 0, 0), 1)

    def _floor_pj(self, problem: LayerProblem) -> float | None:
        if surely_maps_not(problem):
            return inf
        return self.floors.energy_pj(problem) if surely_maps(problem) else None

    def _with_more_room_pj(self, problem: LayerProblem) -> float:
        """Return the most that the same layer costs, its operands at the same homes, where its tiles have more room."""
        if not self.by_energy:
            return 0.0
        return max((inf if one is None else one.energy_pj for one in self._roomier.of(problem)), default=0.0)
