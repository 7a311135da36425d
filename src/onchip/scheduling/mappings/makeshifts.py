"""Mappings that are made without a search, and the time that is kept back for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.schedule import Homes
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.mapping.local_search.greedy import greedy_mapping
from onchip.mapping.local_search.one_by_one import one_by_one
from onchip.model.program.nest_cost import nest_cost
from onchip.scheduling.mappings.mapped import NestKey, key_of
from onchip.scheduling.mappings.mapped_nest import MappedNest, Room
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.clock import Deadline

SECONDS_OF_A_MAKESHIFT: Final = 0.0045
"""Of a processor, to make it, to price it and to compose what runs so."""
_NestInRoom: TypeAlias = tuple[Layer, Homes, bool, tuple[tuple[str, int], ...]]


@dataclass(slots=True)
class Makeshifts:
    """The array and the memories filled without a search; one multiply-accumulate after the other where that fails.

    Each is made once for all nests that are alike: without time there is none to make it again. `is_late` says that a
    first composition needs all time that is left for makeshifts of the nests that have no mapping yet.
    """

    objective: MappingObjective
    is_late: bool = field(default=False, init=False)
    _made: dict[_NestInRoom, MappedNest | None] = field(default_factory=dict, init=False)
    _waiting: set[NestKey] = field(default_factory=set, init=False)

    def of(self, nest: NestPlace, problem: LayerProblem, room: Room) -> MappedNest | None:
        """The nest's own, or that of one which is alike; None where it does not fit."""
        key = nest.layer, nest.homes, nest.weight_is_an_input, tuple(problem.room_bytes.items())
        if key not in self._made:
            self._made[key] = _made_at_once(problem, self.objective)
        found = self._made[key]
        return found if found is not None and found.fits(room) else None

    def expect(self, asked: Sequence[NestPlace]) -> None:
        """A composition begins, of which these nests have no mapping yet."""
        self._waiting, self.is_late = {key_of(nest) for nest in asked}, False

    def look(self, nest: NestPlace, deadline: Deadline) -> None:
        """See whether there is time to search for this nest, which is next; once there is none, for no other either.

        What is searched for less than it would be with more time is cut.
        """
        if not self.is_late and deadline.is_too_short_for(SECONDS_OF_A_MAKESHIFT * len(self._waiting)):
            self.is_late = True
            deadline.cut()
        self._waiting.discard(key_of(nest))


def _made_at_once(problem: LayerProblem, objective: MappingObjective) -> MappedNest | None:
    try:
        mapping = greedy_mapping(problem, objective) or one_by_one(problem)
    except InputError:
        mapping = one_by_one(problem)
    try:
        return MappedNest(mapping, nest_cost(problem, mapping), is_makeshift=True)
    except InputError:
        return None
