"""Faults of claims at short limits, and of the cache of mappings."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

CACHE = "src/onchip/mapping/methods/cache.py"
WIDE = "src/onchip/mapping/prove/wide.py"

FAULTS: Final = (
    Planted(
        "the best even mapping is taken for the best of all",
        WIDE,
        "return replace(found, answer=even.answer, objective_value=even.objective_value, optimal_among=among)",
        "return replace(even, method=found.method, space=found.space)",
        "map-limits",
    ),
    Planted(
        "the bound of even mappings is taken for that of all",
        WIDE,
        "found = SearchResult(Status.FEASIBLE, self.answer, value, bound, seconds, METHOD, stop, space)",
        "bound = min(value, max(bound, even.lower_bound if even else 0))\n"
        "        found = SearchResult(Status.FEASIBLE, self.answer, value, bound, seconds, METHOD, stop, space)",
        "map-limits",
    ),
    Planted(
        "a second search proves the answer of the first",
        CACHE,
        "bound = min(value, max(kept.lower_bound, found.lower_bound))",
        "bound = value",
        "map-limits",
    ),
)
