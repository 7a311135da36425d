"""The best mapping of a nest at its homes in the room that is left: proven, or in time the best that LOMA has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Result, Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.cost.schedule.nest_cost import nest_cost
from onchip.errors import InputError
from onchip.solve.mapping.cache import MappingCache
from onchip.solve.mapping.layer_at import map_layer_at
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Limits, Run
from onchip.solve.schedule.mapped import MappedNest, Room
from onchip.solve.schedule.runs import NestPlace

SHARE_OF_A_COMPOSITION: Final = 0.4
"""Of the time that is left, for all nests of a schedule that are not mapped yet."""
SHARE_OF_A_NEST: Final = 0.1
"""Of the time that is left, at most for one nest."""
SHARE_OF_A_PROOF: Final = 0.7
"""Of a nest's time, for the mapper that proves; LOMA has the rest."""
LOMA_SECONDS: Final = 1.0
LEAST_LOMA_SECONDS: Final = 0.2
LEAST_SECONDS_OF_A_PROOF: Final = 0.02
SUMMED: Final = ("S", "R", "C")
INNERMOST_FIRST: Final = (*SUMMED, "Q", "P", "K", "G", "N")
"""Loops over what is summed up come first, so that sums in the making stay near the MACs."""


@dataclass(slots=True)
class BestMapper:
    """Asks the exact mapper for each nest, and LOMA for what it has not proven in its share of the time.

    Once the time is over a nest runs one multiply-accumulate after the other: it is a schedule, if a bad one.
    """

    accelerator: Accelerator
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None
    seconds: float = field(default=0.0, init=False)
    """How long all mappings have taken."""
    _until: float = field(default=float("inf"), init=False)
    _waiting: int = field(default=1, init=False)

    def expect(self, count: int) -> None:
        """Share the time among so many nests that are asked for next."""
        self._waiting = max(1, count)
        self._until = self.run.seconds + SHARE_OF_A_COMPOSITION * max(0.0, self.run.seconds_left)

    def __call__(self, nest: NestPlace, room: Room) -> MappedNest | None:
        """None where nothing fits, or nothing was found in time."""
        begun = self.run.seconds
        found = self._mapped(nest, room)
        self.seconds += self.run.seconds - begun
        return found

    def _mapped(self, nest: NestPlace, room: Room) -> MappedNest | None:
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        share = min((self._until - self.run.seconds) / self._waiting, SHARE_OF_A_NEST * self.run.seconds_left)
        self._waiting = max(1, self._waiting - 1)
        found = self._searched(problem, share) if self.run.stop is None else None
        if found is not None and (found.answer is not None or found.status is Status.INFEASIBLE):
            return None if found.answer is None else MappedNest(found.answer, nest_cost(problem, found.answer))
        return self._makeshift(problem, room)

    def _searched(self, problem: LayerProblem, share: float) -> Result[LayerMapping] | None:
        """What is not proven in its share of the time may be no better than what LOMA finds in milliseconds."""
        of_proof = SHARE_OF_A_PROOF * share
        proven = self._asked("exact", problem, of_proof) if of_proof >= LEAST_SECONDS_OF_A_PROOF else None
        if proven is not None and proven.status in (Status.OPTIMAL, Status.INFEASIBLE):
            return proven
        of_loma = min(max(share, LEAST_LOMA_SECONDS), LOMA_SECONDS)
        found = [one for one in (proven, self._asked("loma", problem, of_loma)) if one is not None]
        answers = [one for one in found if one.answer is not None and one.objective_value is not None]
        return min(answers, key=lambda one: one.objective_value or 0) if answers else None

    def _asked(self, name: str, problem: LayerProblem, seconds: float) -> Result[LayerMapping] | None:
        is_limited = self.run.limits.time_limit_seconds is not None
        limits = Limits(max(0.0, min(seconds, self.run.seconds_left))) if is_limited else Limits()
        own = Run(limits, interrupt=self.run.interrupt)
        try:
            return map_layer_at(problem, self.objective, own, name, self.cache)
        except InputError:
            return None

    def _makeshift(self, problem: LayerProblem, room: Room) -> MappedNest | None:
        """One multiply-accumulate after the other; each memory keeps one element of what it holds, if that has room."""
        bounds = problem.layer.bounds
        loops = tuple(Loop(name, bounds[name]) for name in INNERMOST_FIRST if bounds[name] > 1)
        summed = sum(loop.dimension in SUMMED for loop in loops)
        kept = (
            tuple(Kept(level.memory.name, summed if operand is Operand.OUTPUT else 0) for level in keepers)
            for operand in Operand
            for keepers in (problem.keepers(operand) if operand in problem.layer.operands else (),)
        )
        mapping = LayerMapping(loops, *kept)
        try:
            mapped = MappedNest(mapping, nest_cost(problem, mapping), is_makeshift=True)
        except InputError:
            return None
        return mapped if mapped.fits(room) else None
