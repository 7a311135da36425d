"""`--method exact`: search and lower bound over all mappings WITHOUT_BYPASS, the even ones first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import LayerMapping, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result, Status, Stop
from onchip.bounds.layer.floors import floor_of_any
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.baselines.loma import solve_as_loma
from onchip.mapping.local_search.greedy import greedy_mapping
from onchip.mapping.prove.bounds import WayBounds
from onchip.mapping.prove.remainders import ended_short, starts
from onchip.mapping.space.spaces import EVEN_MAPPINGS, WITHOUT_BYPASS
from onchip.mapping.tile_search.exact import METHOD, OBJECTIVES, ExactMapper, mapping_of
from onchip.model.layer.batch import LayerCosts
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import array_of
from onchip.model.layer.native_layer import native_layer, native_machine
from onchip.native import ExactRefiner
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import without_bound

MAPPINGS_AT_ONCE: Final = 20_000
SEED: Final = 1

BLOCK_BYTES: Final = 32 * 1000 * 1000

SMALL_PRIMES: Final = (2, 3, 5)
"""All that divide a longer loop, so that it may be cut in many places."""
MOST_LENGTHENED: Final = 6
"""A loop is at most one part in so many longer."""

WAYS: Final = 24
MAPPINGS_OF_A_WAY: Final = 12_000
MAPPINGS_OF_THE_BEST: Final = 60_000
SHARE_OF_TIME: Final = 0.3
"""Of a limited run, ahead of the proof."""
SHARE_OF_BOUND: Final = 0.3
"""Of what is left of it then, for the bound on all mappings."""
SHARE_OF_WAYS: Final = 0.5
"""Of what is left after the proof, for ways that had no turn, and of the rest for steps from the best even mapping.

The bound has what is left then, and ways what it leaves: without a look at its root a gap may be fifty times as wide.
"""
SHARE_OF_LONGER: Final = 0.2
"""Of what is left after these, for layers with a loop that is longer than it has to be."""
SHARE_OF_A_LOOK: Final = 0.7
"""Of the bound's time, before the chains that it has met are looked at as mappings; then of the rest, and so on."""
CLOSE: Final = 1e-9
"""Values that differ by a smaller part count as equal."""


@dataclass(slots=True)
class _Way:
    """A way whose loops may end short: the longer layer, its best mapping so far, and about what is left of its value.

    The value is infinite until steps have been taken from where it began.
    """

    executed: Layer
    mapping: LayerMapping
    value: float = inf


@dataclass(slots=True)
class WideMapper:
    """Looks beyond the even mappings for a limit, proves the best even mapping below it, and improves on that."""

    problem: LayerProblem
    objective: MappingObjective
    run: Run
    value: float = inf
    answer: LayerMapping | None = None
    _ways: list[_Way] = field(default_factory=list)
    _bounds: WayBounds = field(init=False)
    _starts: Iterator[tuple[Layer, LayerMapping]] = field(init=False)

    def __post_init__(self) -> None:
        self.problem = self.problem.without_memories_of_no_use()
        self._starts = starts(self.problem, self.objective, WAYS)
        self._bounds = WayBounds(self.problem, self.objective)

    def solve(self) -> Result[LayerMapping]:
        """Return the best mapping found, with a status and a bound that hold for all mappings WITHOUT_BYPASS."""
        self._look_beyond()
        even = self._even()
        self._look_at_ways(self._part_of_time(SHARE_OF_WAYS))
        if even is not None:
            if even.answer is not None:
                self._offer(even.answer)
            self._look_at_longer(self._part_of_time(SHARE_OF_LONGER))
        if self.answer is None:
            return self._without_answer()
        if even is None or even.answer is None:
            return self._beyond(even)
        self._refine(self.problem.layer, even.answer, MAPPINGS_OF_THE_BEST, self._part_of_time(SHARE_OF_WAYS))
        found = self._beyond(even)
        value = even.objective_value
        is_beaten = value is None or value > round(self.value * (1 + CLOSE)) or value <= found.lower_bound
        return found if is_beaten or even.status is not Status.OPTIMAL else self._best_even(found, even)

    def _best_even(self, found: Result[LayerMapping], even: Result[LayerMapping]) -> Result[LayerMapping]:
        """Return the even optimum with the bound on all mappings WITHOUT_BYPASS."""
        among = EVEN_MAPPINGS.name
        return replace(found, answer=even.answer, objective_value=even.objective_value, optimal_among=among)

    def _without_answer(self) -> Result[LayerMapping]:
        """Return UNKNOWN: that no even mapping fits says nothing of the others."""
        bound, stop = floor_of_any(self.problem, self.objective), self.run.stop or Stop.COMPLETED
        return Result(Status.UNKNOWN, None, None, bound, self.run.seconds, METHOD, stop, WITHOUT_BYPASS.name)

    def _look_beyond(self) -> None:
        """From LOMA's mappings: of the layer, and of longer ones that are cut off where it ends.

        However little time there is, there is a mapping to begin with, and one way that ends short is seen: a prime
        bound may have no even mapping near it.
        """
        share = self._part_of_time(SHARE_OF_TIME)
        by_loma = solve_as_loma(self.problem, self.objective, share).answer
        first = by_loma or greedy_mapping(self.problem, self.objective)
        if first is not None:
            self._offer(first)
        self._begin_ways(share)
        if first is not None:
            self._refine(self.problem.layer, first, MAPPINGS_OF_THE_BEST, share)
        self._look_at_ways(share)

    def _part_of_time(self, share: float) -> Run:
        return self.run.within(self.run.seconds_left * share) if self.run.deadline.is_set else self.run

    def _begin_ways(self, run: Run) -> None:
        """Each cut off as it begins: that takes milliseconds."""
        for executed, start in self._starts:
            self._offer(ended_short(self.problem.layer, start))
            self._ways.append(_Way(executed, start))
            if run.stop is not None:
                return

    def _look_at_ways(self, run: Run) -> None:
        """Take steps from those that had no turn, and cost them cut off.

        The longer layer's cost says too little of that to choose by: of equal ones the worst is a sixth above the best.
        """
        if run.stop is None:
            self._begin_ways(run)
        for way in self._ways:
            if run.stop is not None:
                break
            if way.value == inf:
                value, way.mapping = refined(
                    self.problem, way.executed, self.objective, way.mapping, MAPPINGS_OF_A_WAY, run
                )
                way.value = value * self._least_part(way.executed)
                if way.value < self.value:
                    self._offer(ended_short(self.problem.layer, way.mapping))

    def _look_at_longer(self, run: Run) -> None:
        """Best even mappings of layers with a loop longer than it has to be, cut off; again from one that is better."""
        layer = None if any(self.problem.homes) else self.problem.layer
        while layer is not None:
            layer = self._better_of_longer(layer, run)

    def _better_of_longer(self, layer: Layer, run: Run) -> Layer | None:
        """The longer layer whose mapping is the answer now, if any is.

        Each has half of the time that is left: with what is known as a limit most end at once.
        """
        better = None
        for executed in longer_layers(layer):
            if run.stop is not None:
                return None
            before, longer = self.value, replace(self.problem, layer=executed)
            own = without_bound(run.within(run.seconds_left / 2) if run.deadline.is_set else run)
            limit = before / self._least_part(executed)
            try:
                found = ExactMapper(longer, self.objective, own, best=limit).solve().answer
            except InputError:  # it has too many tiles
                continue
            if found is not None:
                self._offer(ended_short(self.problem.layer, found))
            if self.value < before:
                better = executed
        return better

    def _least_part(self, executed: Layer) -> float:
        """About what is left of a longer layer's cost where it is cut off."""
        part = self.problem.layer.macs / executed.macs
        return part * part if self.objective is MappingObjective.EDP else part

    def _look_at_chains(self, value: int) -> None:
        """Chains that the bound met are mappings, if they are counted right: of the best steps are taken, too.

        Where the bound has nothing left to look into loops are parted, too.
        """
        before, chains = self.answer, self._bounds.chains_below(value)
        looks = [one.mappings() for one in chains]
        if self._bounds.is_done(self.run):
            looks += [one.mappings_of_parted_loops() for one in chains]
        for mapping in (one for look in looks for one in look):
            if self.run.stop is not None:
                return
            self._offer(mapping)
        if self.answer is not None and self.answer is not before:
            executed = self.problem.layer.padded_to(self.answer.bounds)
            start = replace(self.answer, ragged=())
            _, mapping = refined(self.problem, executed, self.objective, start, MAPPINGS_OF_A_WAY, self.run)
            self._offer(ended_short(self.problem.layer, mapping))

    def _refine(self, executed: Layer, start: LayerMapping, mappings: int, run: Run) -> None:
        _, mapping = refined(self.problem, executed, self.objective, start, mappings, run)
        self._offer(mapping)

    def _offer(self, mapping: LayerMapping) -> None:
        try:
            cost = layer_cost(self.problem, mapping)
        except MappingError:  # cut off, it may have no room
            return
        value = self.objective.of(cost.energy_pj, cost.cycles)
        if value < self.value:
            self.value, self.answer = value, mapping
            self.run.report(round(value), 0, "mappings")

    def _even(self) -> Result[LayerMapping] | None:
        """The best even mapping that is no worse than what is known; None for a layer with too many tiles.

        Until it is known whose answer stands, the bound of even mappings is not shown: it may not be of the answer.
        """
        limit = self.value + max(1.0, 2 * CLOSE * self.value) if self.value < inf else inf
        run = self.run if self.answer is None else self._part_of_time(1 - SHARE_OF_BOUND)
        try:
            return ExactMapper(self.problem, self.objective, without_bound(run), best=limit).solve()
        except AcceleratorError:
            raise
        except InputError:
            if self.answer is None:
                raise
            return None

    def _beyond(self, even: Result[LayerMapping] | None) -> Result[LayerMapping]:
        value, before = round(self.value), inf
        bound = self._bounds.bound(value, self._part_of_time(SHARE_OF_A_LOOK))
        while bound < value and (value < before or not self._bounds.is_done(self.run)):
            self._look_at_chains(value)
            self._look_at_ways(self.run)
            value, before = round(self.value), value
            bound = self._bounds.bound(value, self._part_of_time(SHARE_OF_A_LOOK))
            if self.run.stop is not None:  # what is known may be just the value of a chain met last
                break
        seconds, space = self.run.seconds, WITHOUT_BYPASS.name
        if bound >= value:
            return Result(Status.OPTIMAL, self.answer, value, value, seconds, METHOD, space=space)
        stop = self.run.stop or (Stop.COMPLETED if even is None else even.stopped_by)
        return Result(Status.FEASIBLE, self.answer, value, bound, seconds, METHOD, stop, space)


def solve_widely(problem: LayerProblem, objective: MappingObjective, run: Run) -> Result[LayerMapping]:
    """Return the best mapping found; status and bound hold for all mappings WITHOUT_BYPASS.

    `optimal_among` names EVEN_MAPPINGS if the answer is FEASIBLE, and the best of these is proven. INFEASIBLE is never
    claimed. Raises AcceleratorError where the accelerator says too little, InputError for a layer that is too large.
    """
    keep_freed_memory()
    return WideMapper(problem, objective, run).solve()


def longer_layers(layer: Layer) -> Iterator[Layer]:
    """Yield the layer with one of its loops longer, the least lengthened first.

    Even mappings of a longer loop may be better once they are cut off. Of 512 iterations no even mapping has a factor
    of 3. Those of 540 have, and of them only 512 are executed.
    """
    lengthened = [
        (length / bound, loop, length)
        for loop, bound in layer.bounds.items()
        for length in _products_of_small_primes(bound + bound // MOST_LENGTHENED)
        if length > bound
    ]
    for _, loop, length in sorted(lengthened, key=lambda one: (one[0], LOOPS.index(one[1]))):
        yield layer.padded_to({**layer.bounds, loop: length})


def _products_of_small_primes(most: int) -> list[int]:
    found = [1]
    for prime in SMALL_PRIMES:
        powers = [prime**power for power in range(most.bit_length())]
        found = [one * power for one in found for power in powers if one * power <= most]
    return found


@cache
def keep_freed_memory() -> None:
    """Let the C library keep what is freed, up to about twice a block's size, instead of giving it back each time.

    GNU's learns that from the largest block that was given back: this one, of which no page is touched. Elsewhere it
    does nothing.
    """
    np.empty(BLOCK_BYTES, np.uint8)


def refined(
    problem: LayerProblem,
    executed: Layer,
    objective: MappingObjective,
    start: LayerMapping,
    mappings: int,
    run: Run,
) -> tuple[float, LayerMapping]:
    """The best of about so many mappings and its value as `executed` costs it, `start` where none is better.

    Its loops are those of `executed`, which may be longer than the layer's. Raises MappingError for a start of others.
    """
    array = array_of(problem.accelerator)
    search = ExactRefiner(
        native_layer(executed, problem.accelerator),
        native_machine(problem),
        OBJECTIVES[objective],
        [[loop in loops_along(array, name) for loop in LOOPS] for name in array.sizes],
        SEED,
        *LayerCosts(problem, executed).encode([start]),
    )
    for costed in range(0, mappings, MAPPINGS_AT_ONCE):
        if run.stop is not None:
            break
        search.go_on(min(MAPPINGS_AT_ONCE, mappings - costed))
    return search.value, mapping_of(search.nest, problem) if search.value < inf else start
