"""Which of the mappings on its front each nest of a schedule has: chosen by the figures of the whole schedule."""

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
"""Of the time that there is to weigh mappings, to find what is best by other objectives."""
MOST_OPTIONS_TRIED: Final = 3
"""Of a nest, beside the cheapest: those of the next prices. So many timelines are reckoned for each nest."""


@dataclass(slots=True)
class Weigher:
    """Makes schedules better, everything where it is, by other options of their nests; none is asked for twice."""

    mappings: KnownMappings
    mapper: BestMapper
    _asked: set[tuple[Layer, Homes, bool, tuple[tuple[str, int], ...]]] = field(default_factory=set, init=False)

    def weigh(self, attempt: ScheduleAttempt, run: Run) -> None:
        """The best schedule of an attempt has the options that are best for the whole of it.

        First what is best by other objectives joins the fronts. Then all are priced by what the schedule takes as a
        whole; then one nest after the other, those first that take longest, has options that use DRAM or a memory
        less, and keeps what ends sooner.
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
    """The product of two sums: what an option adds to it depends on both. Again, until that changes nothing."""
    is_better = True
    while is_better and mappings.prices is not None:
        figures, before = attempt.figures, mappings.prices
        priced = replace(before, energy_fj=figures.energy_fj, latency_cycles=figures.latency_cycles)
        if priced == before:
            return
        mappings.weigh(priced)
        is_better = attempt.compose_again()


def _try_what_delays_others_less(attempt: ScheduleAttempt, mappings: KnownMappings, run: Run) -> None:
    """Only where the array waits for anything: else cycles alone count, and they are the least already."""
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
    """Nests, those that take longest first, with options that use DRAM or a memory less than what they have."""
    nests = sorted(attempt.improver.best.composition.nests, key=_longest_first)
    for nest, room, known in nests:
        less = [one for one in mappings.options(nest, room.room) if _delays_less(one.cost, known.cost)]
        if less:
            yield nest, less[:MOST_OPTIONS_TRIED]


def _longest_first(one: tuple[NestPlace, NestRoom, MappedNest]) -> int:
    _, room, mapped = one
    return -room.times * mapped.cost.cycles


def _delays_less(one: NestCost, other: NestCost) -> bool:
    """Whether it moves fewer bits at DRAM, or takes fewer bytes in some memory."""
    bits = one.dram_read_bits + one.dram_written_bits, other.dram_read_bits + other.dram_written_bits
    memories = other.workspace_bytes
    return bits[0] < bits[1] or any(one.workspace_bytes.get(name, 0) < size for name, size in memories.items())
