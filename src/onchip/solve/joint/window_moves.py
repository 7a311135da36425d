"""Large-neighbourhood search: windows of an order are planned anew, exactly in bytes, as long as that helps."""

from __future__ import annotations

from typing import Final

from onchip.solve.joint.search import BestFirstSearch
from onchip.solve.ordering.movable_plan import MovablePlan
from onchip.solve.run.limits import Run
from onchip.solve.run.stage import without_figures

WIDTHS: Final = (10, 14, 20, 28, 40, 56)
"""Steps of a window; each begins in the middle of the one before."""
MOST_PASSES: Final = 4
"""Of one width."""
STATES: Final = 20_000
SHARE_OF_A_WINDOW: Final = 0.1
LEAST_GAIN: Final = 1e-3
"""Of what a plan costs: less is not worth another pass of the same width."""


def improve_in_windows(plan: MovablePlan, run: Run) -> None:
    """Move what is in each window into its best order, from narrow windows to wide ones; the cost never rises."""
    for width in WIDTHS:
        for _ in range(MOST_PASSES):
            cost = plan.cost
            _go_over(plan, width, run)
            if run.stop is not None or width >= len(plan.order) + width // 2:
                return
            if cost - plan.cost <= LEAST_GAIN * cost:
                break
        run.report(None, 0, f"orders within {width} steps")


def _go_over(plan: MovablePlan, width: int, run: Run) -> None:
    silent = without_figures(run)
    for begin in range(0, max(1, len(plan.order) - width // 2), width // 2):
        window = plan.window(begin, begin + width)
        if run.stop is not None:
            return
        if window.cost:
            within = silent.within(SHARE_OF_A_WINDOW * silent.seconds_left)
            found = BestFirstSearch(window.problem, within, STATES, upper_bound=window.cost).solve()
            if found.moves is not None:
                plan.put(window, found.moves)
