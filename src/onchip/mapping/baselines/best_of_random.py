"""`--method random`: the best of a fixed number of valid random mappings."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Stop
from onchip.mapping.baselines.best import CHUNK, MOST_WITHOUT_ANY, Best, in_chunks, random_orders, random_tiling
from onchip.search.budget.limits import Run

METHOD: Final = "random"
VALID: Final = 5
"""Number of valid mappings, as in CoSA's comparison."""
MOST_TRIED: Final = 2_000_000


def solve_at_random(
    problem: LayerProblem, objective: MappingObjective, run: Run, valid: int = VALID
) -> SearchResult[LayerMapping]:
    """Return the best of the first `valid` mappings that fit; deterministic for a seed.

    Tries at least one chunk of mappings, even if the time limit has passed.
    """
    random, best = Random(run.limits.seed), Best(problem, objective)
    levels, found = len(problem.levels) + 1, 0
    drawn = (random_tiling(random, problem).mapping(problem, random_orders(random, levels)) for _ in range(MOST_TRIED))
    for chunk, mappings in enumerate(in_chunks(drawn)):
        if not found and chunk * CHUNK >= MOST_WITHOUT_ANY:
            break
        if chunk and run.stop is not None:
            return best.result(METHOD, run, run.stop)
        fitting = islice((row for row in best.values(mappings) if row[0] < float("inf")), valid - found)
        for value, mapping in fitting:
            found += 1
            best.offer(value, mapping)
        if found == valid:
            break
    return best.result(METHOD, run, Stop.COMPLETED)
