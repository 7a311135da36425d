"""What makes a schedule in given stacks better, each in a share of the time that is left."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from onchip.model.program.rates import MemoryRates
from onchip.scheduling.mappings.longer_look import LongerLook
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.mapping_front import OptionPrices
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.mappings.weighing import Weigher
from onchip.scheduling.program.attempt import ScheduleAttempt
from onchip.scheduling.program.question import ScheduleQuestion
from onchip.search.budget.limits import Run

SHARE_OF_SHAKES: Final = 0.5
"""Of the time that is left, to move several maps of the best at once; the rest for the mappings of what is found."""
SHARE_OF_LONGER_LOOK: Final = 0.5
"""Of the time that is left, for mappings that are not proven, once others were weighed."""
SHARE_OF_WEIGHING: Final = 0.3
"""Of the time that is left, to choose other mappings of what is best by the whole schedule's figures."""
SHARE_OF_PLACES: Final = 0.3
"""Of the time that is left, to improve its places, once other mappings are chosen."""
SHARE_OF_SETTLED_PLACES: Final = 0.6
"""Of the time that is left then, to try places; the rest is for the nests that have moved."""
SECONDS_OF_A_FIRST_LOOK: Final = 0.1
"""For a nest, at most, while places are not settled."""
VERIFYING: Final = 1.0
"""How long it takes to verify a schedule, in times of composing it."""


@dataclass(slots=True)
class Refiner:
    """Improves attempts; none is ever worse for it. Places stay as they are where maps may not stay on the chip.

    `slowest` is how long composing the largest schedule took, in seconds: so much is left for verifying.
    """

    question: ScheduleQuestion
    mapper: BestMapper
    mappings: KnownMappings
    run: Run
    maps_stay: bool
    slowest: float = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether there is a time limit."""
        return self.run.deadline.is_set

    def share(self, share: float) -> Run:
        """The run with a share of the time that is left, but for that of verifying the largest schedule so far.

        That is left once: of it what there is beyond the run is not left within it, too.
        """
        if not self.is_limited:
            return self.run
        verifying = 0.0 if self.run.counts_work else VERIFYING * self.slowest - self.question.seconds_to_check
        kept = max(0.0, verifying)
        return self.run.within(share * max(0.0, self.run.seconds_left - kept))

    def is_improved(self, attempt: ScheduleAttempt) -> bool:
        """Whether no single place makes it better."""
        return attempt.improver.is_over or not self.maps_stay

    def improve(self, attempt: ScheduleAttempt, run: Run, *, is_quick: bool = True) -> None:
        """Try places one by one. In limited time mappings that are found at once show what is worth it."""
        if self.maps_stay:
            with self.mapper.quick(is_quick=is_quick and self.is_limited):
                attempt.improver.improve(run)

    def shake(self, attempt: ScheduleAttempt, share: float) -> None:
        """Move several maps at once. Mappings that are found at once show what is worth it."""
        if self.maps_stay:
            with self.mapper.quick():
                attempt.improver.shake(self.share(share))

    def map_longer(self, attempt: ScheduleAttempt, share: float) -> None:
        """Ask again for mappings that are not proven."""
        self._longer_look().improve(attempt, self.share(share))

    def _longer_look(self, most_seconds: float = inf) -> LongerLook:
        return LongerLook(self.mappings, self.mapper, self.question.objective.is_timed, most_seconds)

    def improve_with_proofs(self, attempt: ScheduleAttempt, share: float) -> None:
        """Try places once more, with mappings that are proven as far as a share of the time allows."""
        attempt.improver.begin_again()
        self.improve(attempt, self.share(share), is_quick=False)

    def settle(self, attempt: ScheduleAttempt, share: float) -> None:
        """Improve a schedule whose mappings were found at once, in a share of the time.

        In limited time nests that nobody has searched for are looked for, if not for long, those first that may gain
        most; then places are tried with what is known of nests at other homes; and again, until that changes nothing.
        """
        run, value = self.share(share), None
        if not self.is_limited:
            self.improve(attempt, run)
            return
        while value is None or (attempt.value < value and run.stop is None):
            value = attempt.value
            self._longer_look(SECONDS_OF_A_FIRST_LOOK).improve(attempt, run)
            attempt.improver.begin_again()
            self.improve(attempt, run.within(SHARE_OF_SETTLED_PLACES * run.seconds_left))

    def finish(self, attempt: ScheduleAttempt) -> None:
        """Shake it and map it longer, until that changes nothing or the time is over."""
        value = None
        while value is None or (attempt.value < value and self.share(1.0).stop is None):
            value = attempt.value
            self.shake(attempt, SHARE_OF_SHAKES)
            self.map_longer(attempt, 1 - SHARE_OF_SHAKES)

    def join(self, attempt: ScheduleAttempt, weigher: Weigher) -> None:
        """From mappings that are each best alone: choose mappings and places together, until that changes nothing.

        What is weighed first takes hundredths of a second; what stage by stage had no time to prove comes next.
        """
        if self.share(1.0).stop is not None:
            return
        self.mapper.shows_others = True
        self.mappings.weigh(OptionPrices(MemoryRates(self.question.accelerator), self.question.objective))
        value = None
        while value is None or (attempt.value < value and self.share(1.0).stop is None):
            value = attempt.value
            with self.mapper.quick():
                weigher.weigh(attempt, self.share(SHARE_OF_WEIGHING))
            if self.is_limited:
                self.map_longer(attempt, SHARE_OF_LONGER_LOOK)
            attempt.improver.begin_again()
            self.improve(attempt, self.share(SHARE_OF_PLACES))
            self.shake(attempt, SHARE_OF_SHAKES)
        self.map_longer(attempt, 1.0)
