"""`--method hybrid`: the search of Timeloop's Hybrid mapper.

A thread draws random tilings and tries their loop orders, one from each class of equal cost. It stops after `patience`
consecutive valid mappings without an improvement. Threads differ in their seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Stop
from onchip.ir.layer import LOOPS
from onchip.mapping.baselines.best import CHUNK, MOST_WITHOUT_ANY, Best, LevelSizes, in_chunks, random_tiling
from onchip.mapping.tile_search.exact import CLASSES
from onchip.search.budget.limits import Run

METHOD: Final = "hybrid"
THREADS: Final = 8
PATIENCE: Final = 500
MOST_TRIED: Final = 2_000_000


def solve_as_hybrid(
    problem: LayerProblem,
    objective: MappingObjective,
    run: Run,
    threads: int = THREADS,
    patience: int = PATIENCE,
) -> SearchResult[LayerMapping]:
    """Return the best mapping of `threads` threads, run one after the other; deterministic for a seed."""
    best = Best(problem, objective)
    for thread in range(threads):
        random = Random(f"{run.limits.seed} {thread}")
        own, in_a_row = float("inf"), 0
        for drawn, mappings in enumerate(in_chunks(_drawn(random, problem))):
            if best.mapping is None and drawn * CHUNK >= MOST_WITHOUT_ANY:
                return best.result(METHOD, run, Stop.COMPLETED)
            if run.stop is not None:
                return best.result(METHOD, run, run.stop)
            for value, mapping in best.values(mappings):
                if value == float("inf") or in_a_row == patience:
                    continue
                in_a_row = 0 if value < own else in_a_row + 1
                own = min(own, value)
                best.offer(value, mapping)
            if in_a_row == patience:
                break
    return best.result(METHOD, run, Stop.COMPLETED)


def _drawn(random: Random, problem: LayerProblem) -> Iterator[LayerMapping]:
    tried = 0
    while tried < MOST_TRIED:
        tiling = random_tiling(random, problem)
        for orders in product(*(_orders(tiling, level) for level in range(len(tiling.temporal)))):
            yield tiling.mapping(problem, orders)
            tried += 1


def _orders(tiling: LevelSizes, level: int) -> list[list[str]]:
    """Return one order for each loop class that can be innermost; the other loops do not affect reuse."""
    present = [(loop, own) for loop, own in zip(LOOPS, CLASSES, strict=True) if tiling.temporal[level].get(loop, 1) > 1]
    return [
        [loop for loop, own in present if own == innermost] + [loop for loop, own in present if own != innermost]
        for innermost in sorted({own for _, own in present})
    ] or [[]]
