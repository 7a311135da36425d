"""`exact` with padded bounds: loops may run longer than needed, so that a prime bound splits too.

A loop may have its own bound, or one that is at most a given percentage longer and has no prime factor above
LARGEST_PRIME. A padded layer has the cost of that longer layer: the added iterations are computed, and the added zeros
of weights, inputs and outputs are stored and moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from operator import itemgetter
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result, Status, Stop
from onchip.bounds.layer.floors import compulsory_cost
from onchip.errors import InputError
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.space.spaces import LARGEST_PRIME
from onchip.mapping.tile_search.exact import METHOD, ExactMapper
from onchip.model.unrolling.factors import prime_counts
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import without_bound

MOST_PADDED_LAYERS: Final = 100_000
NODES_AT_FIRST: Final = 100_000
LEAST_SECONDS: Final = 0.5
"""Minimum seconds for each layer in the first pass: a good mapping of any layer prunes most of the others' search."""


def padded_bounds(bound: int, percent: int) -> tuple[int, ...]:
    """Return the allowed bounds of a loop in ascending order; a loop of one iteration is not padded."""
    longer = range(bound + 1, bound + bound * percent // 100 + 1) if bound > 1 else ()
    return (bound, *(one for one in longer if max(prime_counts(one)) <= LARGEST_PRIME))


def padded_layers(layer: Layer, percent: int) -> Iterator[Layer]:
    """Yield the layer itself, then its padded versions; raises InputError for more than MOST_PADDED_LAYERS."""
    choices = [padded_bounds(bound, percent) for bound in layer.bounds.values()]
    if (count := prod(map(len, choices))) > MOST_PADDED_LAYERS:
        expected = f"less padding: at most {MOST_PADDED_LAYERS}"
        raise InputError(f"padding by {percent} % makes {count} layers", place="--padding", expected=expected)
    for bounds in product(*choices):
        yield layer.padded_to(dict(zip(LOOPS, bounds, strict=True)))


def solve_padded(problem: LayerProblem, objective: MappingObjective, run: Run, percent: int) -> Result[LayerMapping]:
    """Return the best mapping over all padded layers, OPTIMAL if proven over all of them.

    Raises the errors of `solve_exactly` and `padded_layers`, and InputError if operands reside whole in a memory, where
    nothing is padded.
    """
    if any(problem.homes):
        raise InputError("an operand lies whole in a memory", place="--padding", expected="all of them in DRAM")
    padded = (replace(problem, layer=one) for one in padded_layers(problem.layer, percent))
    unproven = [(objective.of(*compulsory_cost(one)), one) for one in padded]
    mapper = _PaddedMapper(objective, run)
    unproven = mapper.search(unproven, is_first=True)
    return mapper.result(mapper.search(unproven, is_first=False))


@dataclass(slots=True)
class _PaddedMapper:
    """A search over padded layers for mappings better than the best so far."""

    objective: MappingObjective
    run: Run
    best: float = inf
    answer: LayerMapping | None = None

    def search(self, floors: list[tuple[float, LayerProblem]], *, is_first: bool) -> list[tuple[float, LayerProblem]]:
        """Search the layers, least lower bound first; return the unproven ones with their lower bounds."""
        unproven, share = [], self.run.seconds_left / 2 / max(1, len(floors))
        for number, (floor, padded) in enumerate(sorted(floors, key=itemgetter(0)), start=1):
            if floor >= self.best:
                continue
            if self.run.stop is not None:
                unproven.append((floor, padded))
                continue
            best = None if self.answer is None else round(self.best)
            proven = int(min(floor, *(least for least, _ in unproven))) if unproven else int(floor)
            self.run.report(best, proven, f"padded layer {number} of {len(floors)}")
            own = without_bound(self._first_run(share) if is_first else self.run)
            found = ExactMapper(padded, self.objective, own, best=self.best).solve()
            if found.answer is not None and found.objective_value is not None:
                self.best, self.answer = float(found.objective_value), found.answer
            if found.stopped_by is not Stop.COMPLETED and found.status is not Status.OPTIMAL:
                unproven.append((max(floor, found.lower_bound), padded))
        return unproven

    def _first_run(self, seconds: float) -> Run:
        limits = replace(self.run.limits, node_limit=NODES_AT_FIRST)
        return replace(self.run.within(max(LEAST_SECONDS, seconds)), limits=limits)

    def result(self, unproven: list[tuple[float, LayerProblem]]) -> Result[LayerMapping]:
        """Return the result, bounded by the least lower bound of the layers not fully searched."""
        bound = min([self.best, *(floor for floor, _ in unproven)])
        stopped_by = self.run.stop or Stop.COMPLETED if unproven else Stop.COMPLETED
        if self.answer is None:
            status = Status.UNKNOWN if unproven else Status.INFEASIBLE
            return Result(status, None, None, int(bound) if unproven else 0, self.run.seconds, METHOD, stopped_by)
        status = Status.OPTIMAL if int(bound) == int(self.best) else Status.FEASIBLE
        return Result(status, self.answer, int(self.best), int(bound), self.run.seconds, METHOD, stopped_by)
