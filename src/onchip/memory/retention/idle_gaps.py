"""Stretches of an order over which tensors are idle, and which of them leave at least cost in bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

from onchip.native import StayGap, StaySearch, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

STATES_OF_A_STEP: Final = 1_000
MOST_STATES: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A tensor of so many units is idle from the step `start` to its next use; of these steps, `steps` are looked at.

    If it leaves, `load_cost` is paid, and once for all gaps of the tensor that are looked at together `store_cost`.
    """

    tensor: int
    start: int
    steps: range
    units: int
    load_cost: int
    store_cost: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """Which gaps leave, and what that costs."""

    gaps: tuple[IdleGap, ...]
    cost: int


def what_leaves(gaps: Sequence[IdleGap], left_units: Callable[[int], int], run: Run) -> Leaving | None:
    """Return what leaves at least cost, so that in no step what stays takes more than `left_units` says of it.

    None where the choices are too many (`native/stays.hpp`) or the run has to stop.
    """
    if not gaps:
        return Leaving((), 0)
    if run.stop is not None:
        return None
    first, stop = min(gap.steps.start for gap in gaps), max(gap.steps.stop for gap in gaps)
    search = StaySearch(
        [
            StayGap(
                tensor=gap.tensor,
                start=gap.steps.start - first,
                stop=gap.steps.stop - first,
                units=gap.units,
                load_cost=gap.load_cost,
                store_cost=gap.store_cost,
            )
            for gap in gaps
        ],
        [left_units(step) for step in range(first, stop)],
    )
    token, most_states = StopToken(), min(MOST_STATES, STATES_OF_A_STEP * (stop - first))
    if not run_watched(lambda: search.run(most_states, token), token.ask, run):
        return None
    return Leaving(tuple(compress(gaps, (not stays for stays in search.stays))), search.cost)
