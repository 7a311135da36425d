"""How long the loops wait at a port: transfers that do not fit into the windows in which tiles may be replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onchip.model.accounting.accounting import Accounting


@dataclass(frozen=True, slots=True)
class Visit:
    """One kind of transfer at one port of one memory: `busy` cycles in each `period`, within its last `window`.

    `times` is how often while the loops run; `is_first` and `is_last` say that one more comes before or after.
    `bits` is what moves each time; `boundary` numbers those of the operand, 0 at the units; a sum `returns` from above.
    """

    memory: str
    port: int
    operand: str
    busy: int
    period: int
    window: int
    times: int
    is_first: bool = False
    is_last: bool = False
    bits: int = 0
    bits_per_cycle: int = 1
    boundary: int = 0
    returns: bool = False


def stall_at(visits: Sequence[Visit], cycles: int, accounting: Accounting) -> int:
    """At one port: what single transfers exceed their windows by, or all together the windows' union."""
    last_counts = accounting.last_periods_have_windows
    visits = [visit for visit in visits if visit.times or last_counts]
    if not visits or (accounting.lone_transfers_never_stall and len(visits) == 1):
        return 0
    alone = sum(max(visit.busy - visit.window, 0) * visit.times for visit in visits)
    covered = covered_cycles(visits, cycles, last_counts=last_counts)
    together = sum(visit.busy * visit.times for visit in visits) - covered
    return max(alone, together, 0)


def covered_cycles(visits: Sequence[Visit], cycles: int, *, last_counts: bool = False) -> int:
    """How many of the cycles lie in the window of at least one visit.

    Periods are products of inner loops of one nest, so each is a multiple of the shorter ones. The last period of a
    tile has no window, as nothing follows it, unless it `last_counts`. What goes to or from the MACs has every cycle.
    """
    if any(visit.period == 1 or (last_counts and visit.period == visit.window) for visit in visits):
        return cycles
    ordered = sorted(visits, key=lambda visit: (visit.period, visit.window))
    whole = [0]  # covered in one period of the first visits, by number of visits
    for count, visit in enumerate(ordered):
        whole.append(_covered(ordered, whole, count + 1, visit.period))
    if last_counts:
        return whole[-1] * (cycles // ordered[-1].period)
    covered = 0
    for visit, in_a_period in reversed(list(zip(ordered, whole[1:], strict=True))):
        covered += in_a_period * (cycles // visit.period - 1)
        cycles = visit.period
    return covered


def _covered(ordered: Sequence[Visit], whole: Sequence[int], count: int, cycles: int) -> int:
    """In the first `cycles` of a period of visit `count - 1`, by it and those before."""
    if not count or not cycles:
        return 0
    visit = ordered[count - 1]
    before = min(cycles, visit.period - visit.window)
    if count == 1:
        return cycles - before
    inner = ordered[count - 2].period
    within = whole[count - 1] * (before // inner) + _covered(ordered, whole, count - 1, before % inner)
    return within + cycles - before
