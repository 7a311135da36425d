"""Groups that grow: neighbouring segments of the order are merged as long as that lowers the price of the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from onchip.answer.schedule import ScheduledStack
from onchip.scheduling.fronts.stack_front import Operators, StackFront, StackOption, StackPrices, cheapest_cuts
from onchip.search.budget.limits import Run

FrontOf: TypeAlias = Callable[[Operators], StackFront | None]
"""Finds the front of operators as one group; None, or an empty front, if they are none."""


@dataclass(slots=True)
class Growth:
    """Merges segments; `fronts` holds the known fronts of groups.

    A group without a front cannot run, or saves too little.
    """

    prices: StackPrices
    run: Run
    fronts: dict[Operators, StackFront] = field(default_factory=dict)
    _looked_at: set[Operators] = field(default_factory=set, init=False)
    _front_of: FrontOf = field(default=lambda _: None, init=False)

    def grow(self, blocks: Sequence[Operators], front_of: FrontOf) -> None:
        """Look at each block, at runs of blocks, and at runs of operators inside a block that is better in parts.

        `front_of` finds the front of a group; `fronts` keeps it.
        """
        self._front_of = front_of
        self._looked_at.clear()
        for block in blocks:
            self._look(block)
        self._merge_all(list(blocks))
        for block in blocks:
            if len(self._cuts(block)) > 1:
                self._merge_all([(name,) for name in block])

    def _merge_all(self, segments: list[Operators]) -> None:
        while len(segments) > 1 and self.run.stop is None:
            found = self._merged(segments)
            if found == segments:
                break
            segments = found

    def _merged(self, segments: Sequence[Operators]) -> list[Operators]:
        """Merge pairs of neighbouring segments with positive gain, greatest first, each segment at most once."""
        gains: list[tuple[int, int]] = []
        for at in range(len(segments) - 1):
            if self.run.stop is not None:
                break
            together = (*segments[at], *segments[at + 1])
            self._look(together)
            gains.append((self._price(segments[at]) + self._price(segments[at + 1]) - self._price(together), at))
        taken: set[int] = set()
        for gain, at in sorted(gains, reverse=True):
            if gain > 0 and not {at - 1, at, at + 1} & taken:
                taken.add(at)
        found: list[Operators] = []
        at = 0
        while at < len(segments):
            found.append((*segments[at], *segments[at + 1]) if at in taken else segments[at])
            at += 2 if at in taken else 1
        return found

    def _price(self, operators: Operators) -> int:
        """Return the price of the cheapest cuts of consecutive operators."""
        return sum(self.prices.of(one.figures) for one in self._cuts(operators))

    def _cuts(self, operators: Operators) -> Sequence[StackOption]:
        """Return the cheapest cuts of consecutive operators."""
        stacks = [ScheduledStack((name,)) for name in operators]
        return list(cheapest_cuts(stacks, self.fronts, self.prices))

    def _look(self, operators: Operators) -> None:
        if len(operators) < 2 or operators in self._looked_at or self.run.stop is not None:
            return
        self._looked_at.add(operators)
        found = self._front_of(operators)
        for option in () if found is None else found.options:
            self.fronts[operators] = self.fronts.get(operators, StackFront()).with_option(option)
