"""Longer searches for the unproven mappings of a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, TypeAlias

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.scheduling.mappings.mapped import KnownMappings, NestKey, is_within, key_of
from onchip.scheduling.mappings.mapped_nest import MappedNest, Room
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.attempt import ScheduleAttempt
from onchip.scheduling.program.composition import NestRoom
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Run

SECONDS_OF_A_LONGER_LOOK: Final = 0.1
"""Minimum seconds for the mapping of a nest."""
LONGER: Final = 1.5
"""Minimum ratio to the layer's earlier search time; a shorter search finds nothing new."""
MappedAtPlace: TypeAlias = tuple[NestPlace, NestRoom, MappedNest]


@dataclass(frozen=True, slots=True)
class LongerLook:
    """Repeated mapping searches, nests with the greatest potential gain first.

    With `counts_cycles` the gain is in cycles, and time is allotted in proportion; otherwise it is in energy, with
    equal time for all. Nests of several groups with the same layer and homes are searched once, and again for a
    capacity in which the result does not fit.
    """

    mappings: KnownMappings
    mapper: BestMapper
    counts_cycles: bool
    is_wide: bool = False
    """True to search beyond even mappings."""
    most_seconds: float = inf
    """Time limit of one search, at least the earlier search time of its layer; if finite, only nests never searched are
    included.
    """

    def improve(self, best: ScheduleAttempt, left: Run) -> None:
        """Improve the best schedule with the mappings found."""
        groups = [(sum(map(self._to_gain, alike)), alike) for alike in self._alike(best)]
        waiting = sorted((one for one in groups if one[0] > 0), key=lambda one: -one[0])
        if left.deadline.is_set and waiting and not self.is_wide:
            seconds = max(left.seconds_left / len(waiting), SECONDS_OF_A_LONGER_LOOK)
            asked = [(nest, room.room) for _, alike in waiting for nest, room, _ in alike]
            self.mapper.look_ahead(asked, [self.mapper.objective], min(seconds, self.most_seconds))
        is_mapped = False
        for at, (gain, alike) in enumerate(waiting):
            if left.stop is not None:
                break
            share = gain / sum(gain for gain, _ in waiting[at:]) if self.counts_cycles else 1 / (len(waiting) - at)
            is_mapped |= self._look(alike, share, left)
        if is_mapped:
            with self.mapper.quick():  # nests without time keep their mappings
                best.compose_again()

    def _alike(self, best: ScheduleAttempt) -> Iterable[Sequence[MappedAtPlace]]:
        """Return the nests to search, grouped by layer and homes, most capacity first."""
        is_first = self.most_seconds < inf
        found: dict[NestKey, list[MappedAtPlace]] = {}
        for one in best.improver.best.composition.nests:
            is_known = one[2].is_wide if self.is_wide else one[2].is_proven
            if not is_known and not (is_first and self.mapper.seconds_of(one[0].layer)):
                found.setdefault(key_of(one[0]), []).append(one)
        return [sorted(alike, key=lambda one: -sum(one[1].room.values())) for alike in found.values()]

    def _look(self, alike: Sequence[MappedAtPlace], share: float, left: Run) -> bool:
        """Search for equal nests, most capacity first, in a share of the time; return True if a search succeeded.

        Each search gets enough time to find something new; it is skipped if less time is left.
        """
        found: list[tuple[Room, MappedNest]] = []
        for at, (nest, room, known) in enumerate(alike):
            if any(is_within(room.room, larger) and mapped.fits(room.room) for larger, mapped in found):
                continue
            before = 0.0 if self.is_wide else self.mapper.seconds_of(nest.layer)
            if left.stop is not None or left.seconds_left <= before:
                break
            others = {tuple(one.room.items()) for _, one, _ in alike[at:] if not is_within(one.room, room.room)}
            least = max(SECONDS_OF_A_LONGER_LOOK, LONGER * before)
            seconds = max(min(share * left.seconds_left / (1 + len(others)), self.most_seconds), least)
            search = self.mapper.wider if self.is_wide else self.mapper.longer
            mapped = search(nest, room.room, min(seconds, left.seconds_left))
            if mapped is not None:
                better = min(mapped, known, key=self.mapper.value_of)
                looked = replace(better, is_quick=False, is_proven=mapped.is_proven, is_wide=mapped.is_wide)
                found.append((room.room, looked))
                self.mappings.replace(nest, *found[-1])
        return bool(found)

    def _to_gain(self, one: MappedAtPlace) -> float:
        """Return the maximum gain: cycles above the lower bound, or the energy."""
        nest, room, known = one
        if not self.counts_cycles:
            return room.times * known.cost.energy_pj
        least_gain = 0.0 if self.mapper.objective is MappingObjective.LATENCY else 1.0
        return room.times * max(known.cost.cycles - self._least_cycles(nest), least_gain)

    def _least_cycles(self, nest: NestPlace) -> float:
        return self.mapper.floors.least_cycles(nest.layer, weight_is_an_input=nest.weight_is_an_input)
