"""Weigh mappings by their effect on the whole schedule, with a longer look at the most important ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, TypeAlias

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from onchip.model.program.compute_cost import NestCost
from onchip.scheduling.mappings.mapped import KnownMappings, MappedNest, NestKey, Room, is_within, key_of
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


SHARE_OF_ASKING: Final = 0.7
"""Share of the time to find the best mappings by other objectives."""
MOST_OPTIONS_TRIED: Final = 3
"""Maximum number of options tried per nest after the cheapest, each with a timeline."""


@dataclass(slots=True)
class Weigher:
    """The improvement of schedules by other options of their nests, at fixed placements; options are searched once."""

    mappings: KnownMappings
    mapper: BestMapper
    _asked: set[tuple[Layer, Homes, bool, tuple[tuple[str, int], ...]]] = field(default_factory=set, init=False)

    def weigh(self, attempt: ScheduleAttempt, run: Run) -> None:
        """Give the best schedule of an attempt the options that are best for the whole schedule.

        First the best mappings by other objectives join the fronts. Then all options are priced by the schedule's
        totals. Finally each nest, longest first, tries options that use DRAM or a memory less, and keeps those that end
        sooner.
        """
        objective = attempt.question.objective
        if objective.is_timed:
            self._ask_for_others(
                attempt, run.within(SHARE_OF_ASKING * run.seconds_left) if run.deadline.is_set else run
            )
            attempt.compose_again()
        if objective is ScheduleObjective.EDP:
            _price_by_the_whole(attempt, self.mappings)
        if objective.is_timed and run.stop is None:
            _try_what_delays_others_less(attempt, self.mappings, run)

    def _ask_for_others(self, attempt: ScheduleAttempt, run: Run) -> None:
        waiting = [
            (nest, room.room, key)
            for nest, room, _ in sorted(attempt.improver.best.composition.nests, key=_longest_first)
            if (key := (nest.layer, nest.homes, nest.weight_is_an_input, tuple(room.room.items()))) not in self._asked
        ]
        for at, (nest, room, key) in enumerate(waiting):
            if run.stop is not None:
                return
            if key not in self._asked:
                self._asked.add(key)
                seconds = run.seconds_left / (len(waiting) - at)
                self.mappings.learn(nest, self.mapper.otherwise(nest, room, seconds))


def _price_by_the_whole(attempt: ScheduleAttempt, mappings: KnownMappings) -> None:
    """Reprice options by the schedule's totals, as the product's growth depends on both, until nothing changes."""
    is_better = True
    while is_better and mappings.prices is not None:
        figures, before = attempt.figures, mappings.prices
        priced = replace(before, energy_fj=figures.energy_fj, latency_cycles=figures.latency_cycles)
        if priced == before:
            return
        mappings.weigh(priced)
        is_better = attempt.compose_again()


def _try_what_delays_others_less(attempt: ScheduleAttempt, mappings: KnownMappings, run: Run) -> None:
    """Try options that use DRAM or a memory less, if the array stalls; otherwise the cycles are minimal already."""
    parts = attempt.figures.latency
    if parts.total == parts.computing:
        return
    longest = 0.0
    for nest, options in list(_options(attempt, mappings)):
        for option in options:
            begun = run.seconds
            if run.stop is not None or run.seconds_left < longest:
                return
            before = mappings.prefer(nest, option.mapping)
            if not attempt.compose_again():
                mappings.prefer(nest, before)
            longest = max(longest, run.seconds - begun)


def _options(attempt: ScheduleAttempt, mappings: KnownMappings) -> Iterator[tuple[NestPlace, list[MappedNest]]]:
    """Yield nests, longest first, with their options that use DRAM or a memory less."""
    nests = sorted(attempt.improver.best.composition.nests, key=_longest_first)
    for nest, room, known in nests:
        less = [one for one in mappings.options(nest, room.room) if _delays_less(one.cost, known.cost)]
        if less:
            yield nest, less[:MOST_OPTIONS_TRIED]


def _longest_first(one: tuple[NestPlace, NestRoom, MappedNest]) -> int:
    _, room, mapped = one
    return -room.times * mapped.cost.cycles


def _delays_less(one: NestCost, other: NestCost) -> bool:
    """Return True if it moves fewer DRAM bits, or takes fewer bytes in some memory."""
    bits = one.dram_read_bits + one.dram_written_bits, other.dram_read_bits + other.dram_written_bits
    memories = other.workspace_bytes
    return bits[0] < bits[1] or any(one.workspace_bytes.get(name, 0) < size for name, size in memories.items())
