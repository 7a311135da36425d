"""Merging neighbouring segments to fused groups."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.scheduling.candidates.growth import Growth
from onchip.scheduling.fronts.stack_front import (
    Operators,
    StackDemand,
    StackFront,
    StackOption,
    StackPrices,
    cheapest_cuts,
)
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Limits, Run


def grown(prices: Mapping[str, int]) -> list[str]:
    """Return the cheapest groups of the operators `a` to `e`; a group's name has its operators."""

    def front(operators: Operators) -> StackFront:
        price = prices.get("".join(operators))
        if price is None:
            return StackFront()
        tiling = Tiling(1, 1, OverlapMode.RECOMPUTE) if len(operators) > 1 else None
        return StackFront((StackOption(ScheduledStack(operators, tiling), Places(), StackDemand({}, 0, 0, price)),))

    growth = Growth(StackPrices(ScheduleObjective.ENERGY), Run(Limits()))
    alone = [(name,) for name in "abcde"]
    growth.fronts.update({one: front(one) for one in alone})
    growth.grow(alone, front)
    stacks = [ScheduledStack(one) for one in alone]
    return ["".join(one.stack.operators) for one in cheapest_cuts(stacks, growth.fronts, growth.prices)]


ALONE = dict.fromkeys("abcde", 10)


def test_groups_grow_by_pairs_as_long_as_that_lowers_the_price() -> None:
    assert grown({**ALONE, "ab": 15, "cd": 15, "abcd": 20, "bc": 19, "de": 19}) == ["abcd", "e"]


def test_three_in_a_row_are_merged_if_no_pair_of_them_gains() -> None:
    assert grown({**ALONE, "ab": 21, "bcd": 12, "cd": 20, "bcde": 11}) == ["a", "bcde"]


def test_the_greatest_gain_goes_first() -> None:
    assert grown({**ALONE, "ab": 5, "cde": 10, "abcde": 14}) == ["abcde"]
    assert grown({**ALONE, "bc": 5, "cde": 10}) == ["a", "b", "cde"]
