"""The choice among the mappings on each nest's front, by the figures of the whole schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from onchip.model.program.compute_cost import NestCost
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.mapped_nest import MappedNest
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.attempt import ScheduleAttempt
from onchip.scheduling.program.composition import NestRoom
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Run

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
        asked = [(nest, room) for nest, room, _ in waiting]
        self.mapper.look_ahead(asked, self.mapper.others, run.seconds_left / max(1, len(asked)))
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
