"""Baselines that draw random tilings.

`random` is the best of a fixed number of mappings that fit. `hybrid` is Timeloop's Hybrid mapper. A thread
draws random tilings and tries their loop orders, one from each class of equal cost. It stops after `patience`
consecutive valid mappings without an improvement. Threads differ in their seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import inf, isfinite
from random import Random
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop, even, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Stop
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.mapping.baselines.best import unproven
from onchip.mapping.tile_search.exact import CLASSES
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import LayerCosts
from onchip.model.unrolling.unrolling import prime_counts
from onchip.search.budget.limits import Run

HYBRID, RANDOM = "hybrid", "random"
MOST_TRIED: Final = 2_000_000
VALID: Final = 5
"""Number of valid mappings, as in CoSA's comparison."""
THREADS: Final = 8
PATIENCE: Final = 500
CHUNK: Final = 256
MOST_WITHOUT_ANY: Final = 100_000
"""Random mappers give up if none of the first 100,000 drawn mappings fits."""


class Best:
    """Mapping costs of one layer, and the best mapping offered."""

    def __init__(self, problem: LayerProblem, objective: MappingObjective) -> None:
        self._costs = LayerCosts(problem)
        self._objective = objective
        self.value = inf
        self.mapping: LayerMapping | None = None

    def values(self, mappings: Sequence[LayerMapping]) -> Iterator[tuple[float, LayerMapping]]:
        """Yield each mapping with its value in the objective's unit, infinite if it does not fit."""
        costs = self._costs.of(mappings)
        for mapping, energy, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True):
            yield self._objective.of(float(energy), float(cycles)) if isfinite(energy) else inf, mapping

    def offer(self, value: float, mapping: LayerMapping) -> bool:
        """Return True if the mapping is better than all earlier ones; then it is kept."""
        if value >= self.value:
            return False
        self.value, self.mapping = value, mapping
        return True

    def result(self, method: str, run: Run, stop: Stop) -> SearchResult[LayerMapping]:
        """Return the best mapping as FEASIBLE, or UNKNOWN without one; the bound is 0."""
        return unproven(self.value, self.mapping, method, run, stop)


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
            return best.result(RANDOM, run, run.stop)
        fitting = islice((row for row in best.values(mappings) if row[0] < float("inf")), valid - found)
        for value, mapping in fitting:
            found += 1
            best.offer(value, mapping)
        if found == valid:
            break
    return best.result(RANDOM, run, Stop.COMPLETED)


def solve_as_hybrid(
    problem: LayerProblem, objective: MappingObjective, run: Run, threads: int = THREADS, patience: int = PATIENCE
) -> SearchResult[LayerMapping]:
    """Return the best mapping of `threads` threads, run one after the other; deterministic for a seed."""
    best = Best(problem, objective)
    for thread in range(threads):
        random = Random(f"{run.limits.seed} {thread}")
        own, in_a_row = float("inf"), 0
        for drawn, mappings in enumerate(in_chunks(_drawn(random, problem))):
            if best.mapping is None and drawn * CHUNK >= MOST_WITHOUT_ANY:
                return best.result(HYBRID, run, Stop.COMPLETED)
            if run.stop is not None:
                return best.result(HYBRID, run, run.stop)
            for value, mapping in best.values(mappings):
                if value == float("inf") or in_a_row == patience:
                    continue
                in_a_row = 0 if value < own else in_a_row + 1
                own = min(own, value)
                best.offer(value, mapping)
            if in_a_row == patience:
                break
    return best.result(HYBRID, run, Stop.COMPLETED)


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


def in_chunks(mappings: Iterable[LayerMapping]) -> Iterator[list[LayerMapping]]:
    """Yield the mappings in lists of at most CHUNK."""
    rest = iter(mappings)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


@dataclass(frozen=True, slots=True)
class LevelSizes:
    """The loop sizes at each level, DRAM last, and the spatial loops at each level."""

    temporal: tuple[dict[str, int], ...]
    beside: tuple[tuple[Loop, ...], ...]

    def mapping(self, problem: LayerProblem, orders: Sequence[Sequence[str]]) -> LayerMapping:
        """Return the even mapping with these loop orders, innermost first, for each level."""
        parts = [
            [*beside, *(Loop(loop, sizes[loop]) for loop in order if sizes.get(loop, 1) > 1)]
            for sizes, beside, order in zip(self.temporal, self.beside, orders, strict=True)
        ]
        holders = {
            str(operand): [one.memory.name for one in problem.keepers(operand)]
            for operand in Operand
            if operand in problem.layer.operands
        }
        names = [one.memory.name for one in problem.levels]
        return even(list(zip(names, parts[:-1], strict=True)), holders, parts[-1])


def random_tiling(random: Random, problem: LayerProblem) -> LevelSizes:
    """Return a random tiling: each prime factor at any level, or along any array dimension that can take it."""
    array = array_of(problem.accelerator)
    left, beside = dict(array.sizes), dict[tuple[str, str], int]()
    temporal: list[dict[str, int]] = [{} for _ in range(len(problem.levels) + 1)]
    for loop, bound in problem.layer.bounds.items():
        for prime in (prime for prime, count in prime_counts(bound).items() for _ in range(count)):
            fitting = [name for name in left if loop in loops_along(array, name) and prime <= left[name]]
            place = random.randrange(len(fitting) + len(temporal))
            if place < len(fitting):
                name = fitting[place]
                left[name] //= prime
                beside[name, loop] = beside.get((name, loop), 1) * prime
            else:
                sizes = temporal[place - len(fitting)]
                sizes[loop] = sizes.get(loop, 1) * prime
    standing: list[list[Loop]] = [[] for _ in temporal]
    for (name, loop), size in beside.items():
        standing[_level_of(problem, name)].append(Loop(loop, size, name))
    return LevelSizes(tuple(temporal), tuple(map(tuple, standing)))


def random_orders(random: Random, levels: int) -> list[list[str]]:
    """Return a random order of the loops at each level."""
    return [random.sample(LOOPS, len(LOOPS)) for _ in range(levels)]


def _level_of(problem: LayerProblem, along: str) -> int:
    """Return the level below the first memory of inputs that serves a dimension, DRAM's if there is none."""
    start = 0
    for number, (level, kept) in enumerate(zip(problem.levels, problem.kept, strict=True)):
        if Operand.INPUT in kept:
            if level.serves is None or along in level.serves:
                return start
            start = number + 1
    return start
