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
    looked_at: set[Operators] = field(default_factory=set, init=False)
    """Runs of operators that were looked at, whether they are a group or not."""
    _front_of: FrontOf = field(default=lambda _: None, init=False)

    def grow(self, blocks: Sequence[Operators], front_of: FrontOf) -> None:
        """Look at each block, at runs of blocks, and at runs of operators inside a block that is better in parts.

        `front_of` finds the front of a group; `fronts` keeps it.
        """
        self._front_of = front_of
        self.looked_at.clear()
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
        """Merge neighbouring segments with positive gain, greatest first, each segment at most once.

        These are pairs, and three in a row where no pair of them gains: a map may fit on chip only if both of its
        neighbours run in tiles.
        """
        gains: list[tuple[int, int, int]] = []
        for count in (2, 3):
            gaining = {at for _, at, _ in gains}
            for at in range(len(segments) - count + 1):
                if self.run.stop is not None:
                    break
                if not gaining & {at, at + 1}:
                    gain = self._gain(segments[at : at + count])
                    gains += [(gain, at, count)] if gain > 0 else []
        taken: dict[int, int] = {}
        free = set(range(len(segments)))
        for _, at, count in sorted(gains, reverse=True):
            if free.issuperset(range(at, at + count)):
                taken[at] = count
                free.difference_update(range(at, at + count))
        found: list[Operators] = []
        at = 0
        while at < len(segments):
            count = taken.get(at, 1)
            found.append(tuple(name for segment in segments[at : at + count] for name in segment))
            at += count
        return found

    def _gain(self, segments: Sequence[Operators]) -> int:
        """Return by how much the price falls if these segments are one group."""
        together = tuple(name for segment in segments for name in segment)
        self._look(together)
        return sum(map(self._price, segments)) - self._price(together)

    def _price(self, operators: Operators) -> int:
        """Return the price of the cheapest cuts of consecutive operators."""
        return sum(self.prices.of(one.figures) for one in self._cuts(operators))

    def _cuts(self, operators: Operators) -> Sequence[StackOption]:
        """Return the cheapest cuts of consecutive operators."""
        stacks = [ScheduledStack((name,)) for name in operators]
        return list(cheapest_cuts(stacks, self.fronts, self.prices))

    def _look(self, operators: Operators) -> None:
        if len(operators) < 2 or operators in self.looked_at or self.run.stop is not None:
            return
        self.looked_at.add(operators)
        found = self._front_of(operators)
        for option in () if found is None else found.options:
            self.fronts[operators] = self.fronts.get(operators, StackFront()).with_option(option)
