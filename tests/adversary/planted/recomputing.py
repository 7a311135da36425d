"""Faults of running operators again."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

SEARCH = "src/onchip/memory/remat/search.py"
LEVEL = "recompute"

FAULTS: Final = (
    Planted(
        "recompute: what an operator reads that runs again for another is forgotten",
        SEARCH,
        "if not has_run or (self._may_run_again[operator] and indexed.writes[operator] & useful):",
        "if not has_run:",
        LEVEL,
    ),
    Planted(
        "recompute: a spill is not charged to the search",
        SEARCH,
        "cost += indexed.store_costs[tensor]",
        "cost += 0",
        LEVEL,
    ),
    Planted(
        "recompute: a state makes another useless that holds less",
        SEARCH,
        "return cost <= other and not resident & ~state.resident and not stored & ~state.stored",
        "return cost <= other and not stored & ~state.stored",
        LEVEL,
    ),
    Planted(
        "recompute: a further run costs nothing to the search",
        SEARCH,
        "more = brought[0] + (self._costs[operator] if has_run else 0)",
        "more = brought[0]",
        LEVEL,
    ),
    Planted(
        "recompute: what draws at random may run again",
        SEARCH,
        "self._may_run_again = [indexed.problem.may_run_again(one) for one in operators]",
        "self._may_run_again = [True for one in operators]",
        LEVEL,
    ),
)
