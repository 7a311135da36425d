"""Large-neighbourhood search: windows of an order are planned anew, exactly in bytes, as long as that helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from onchip.answer.result import Stop
from onchip.memory.decisions.compose import SearchMove
from onchip.memory.spill.best_first.search import BestFirstSearch
from onchip.memory.spill.large.movable_plan import MovablePlan, PlanWindow
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import of_one_worker, without_figures

WIDTHS: Final = (10, 14, 20, 28, 40, 56)
"""Steps of a window; each begins in the middle of the one before."""
MOST_PASSES: Final = 4
"""Of one width."""
STATES: Final = 20_000
LEAST_GAIN: Final = 1e-3
"""Of what a plan costs: less is not worth another pass of the same width."""


class WindowMoves:
    """Moves what is in windows of plans of one problem, and searches no window twice that was at its best.

    So it is with windows of the same operators in the same order, with the same tensors that come and go. Several
    workers search windows that have no step in common.
    """

    def __init__(self) -> None:
        self._at_their_best: set[object] = set()
        self._widths = [*WIDTHS]

    def begin_again(self) -> None:
        """Take note that the plan is another one: narrow windows come first again."""
        self._widths = [*WIDTHS]

    def improve(self, plan: MovablePlan, run: Run) -> None:
        """Move what is in each window into its best order, from narrow windows to wide ones; the cost never rises.

        What the run has no time for is for the next call.
        """
        while self._widths:
            width = self._widths[0]
            for _ in range(MOST_PASSES):
                cost = plan.cost
                self._go_over(plan, width, run)
                if run.stop is not None or width >= len(plan.order) + width // 2:
                    return
                if cost - plan.cost <= LEAST_GAIN * cost:
                    break
            self._widths.pop(0)
            run.report(None, 0, f"orders within {width} steps")

    def _go_over(self, plan: MovablePlan, width: int, run: Run) -> None:
        alone = of_one_worker(without_figures(run))
        begins = range(0, max(1, len(plan.order) - width // 2), width // 2)
        with ThreadPoolExecutor(run.limits.workers) as pool:
            for some in _apart(begins, run.limits.workers):
                windows = [plan.window(begin, begin + width) for begin in some]
                if run.stop is not None:
                    return
                asked = [one for one in windows if one.cost and _key(one) not in self._at_their_best]
                found = pool.map(lambda one: self._searched(one, alone), asked)
                for window, moves in zip(asked, found, strict=True):
                    if moves is not None:
                        _put(plan, window, moves)

    def _searched(self, window: PlanWindow, run: Run) -> tuple[SearchMove, ...] | None:
        """Return moves that cost less than the window's own, None where none are found."""
        found = BestFirstSearch(window.problem, run, STATES, upper_bound=window.cost).solve()
        if found.moves is None and found.stop in (Stop.COMPLETED, Stop.NODE_LIMIT):
            self._at_their_best.add(_key(window))
        return found.moves


def _put(plan: MovablePlan, window: PlanWindow, moves: tuple[SearchMove, ...]) -> None:
    """Put moves in their place unless what comes to the window, or is stored, has changed since it was stated."""
    now = plan.window(window.begin, window.begin + len(window.operators))
    if _key(now) == _key(window):
        plan.put(now, moves)


def _key(window: PlanWindow) -> object:
    return window.operators, window.tensors, window.cost


def _apart(begins: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    """Yield all windows one by one or, several at a time, first every other one: these have no step in common."""
    for own in (begins,) if count == 1 else (begins[::2], begins[1::2]):
        yield from (own[at : at + count] for at in range(0, len(own), count))
