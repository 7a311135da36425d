"""From what is asked to the best fusion strategy: where to cut, in which tiles, in which mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.result import Result, Status, Stop
from onchip.answer.stacks import OverlapMode, StackStrategy
from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.cost.stack.cost import StackCost
from onchip.cost.stack.moved import moved_sums
from onchip.facts.fusable import FusableNetwork
from onchip.solve.run.limits import Run
from onchip.solve.run.stage import without_bound
from onchip.solve.stacks.cost_table import Ledger
from onchip.solve.stacks.costs import StackCosts, criteria_of
from onchip.solve.stacks.guided import Estimates, GuidedSearch
from onchip.solve.stacks.objective import Criteria, FusionObjective, sum_of
from onchip.solve.stacks.options import OPTIMAL, Combination, FusionOptions
from onchip.solve.stacks.search import FoundWay, LazySearch, NoBoundError, best_of
from onchip.solve.stacks.space import StackChoice, StackSpace
from onchip.solve.stacks.spaces import (
    FewTilings,
    ThinnedTilings,
    ensure_a_tile_fits,
    few_stacks,
    shared_spaces,
    space_described,
    space_of,
    spans_of_option,
)
from onchip.solve.stacks.stacks import LayerSpan
from onchip.solve.stacks.tile_mappings import tile_mappings
from onchip.solve.stacks.ways import PathToPlace

SECONDS_OF_A_STACK: Final = 2e-5
"""To list each that there may be, whatever it costs, which cannot be cut off."""


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The strategy, its stacks with what they cost, and how many stacks have been costed for it.

    `values` are of its stacks in all tiles: in the unit of the objective, and whether that is the cost or only a bound.
    """

    result: Result[FusionStrategy]
    stacks: tuple[tuple[StackChoice, StackCost], ...]
    costed: int
    space: str
    values: Mapping[StackChoice, tuple[int, bool]]


def solve_fusion(
    network: FusableNetwork, accelerator: Accelerator, options: FusionOptions, costs: StackCosts, run: Run
) -> FusionResult:
    """The strategy of least objective value in the space that the options span; raises UsageError for bad ones."""
    spans = spans_of_option(network, accelerator, options.stacks)
    ensure_a_tile_fits(network, spans, options)
    begun = cost_of_moved(network, accelerator, costs.objective)
    solver = Solver(Ledger[StackChoice](costs), begun, options.ahead, run, options.needs_bound)
    space = space_of(network, accelerator, spans, options)
    if options.combination is Combination.BEST:
        found = solver.best(space)
    else:
        found = solver.best_shared(space, shared_spaces(space, options))
    choices = found.way.choices if found.way else ()
    stacks = tuple((choice, costs.found[choice]) for choice in choices)
    result = Result(
        found.status,
        strategy_of(network, choices, [cost for _, cost in stacks]) if found.way else None,
        found.way.value if found.way else None,
        found.lower_bound,
        run.seconds,
        OPTIMAL,
        found.stopped_by,
    )
    return FusionResult(
        result,
        stacks,
        len(solver.ledger.known),
        space_described(network, spans, options),
        _values_beside(choices, solver.ledger),
    )


def cost_of_moved(network: FusableNetwork, accelerator: Accelerator, objective: FusionObjective) -> Criteria:
    """Return what the operators cost that run beside the stacks, whatever these are."""
    moved = moved_sums(network.moved, accelerator)
    return sum_of([objective.zero, *(criteria_of(objective, one) for one in moved)])


@dataclass(frozen=True, slots=True)
class Solver:
    """Good strategies first, then the proof; all of it shares what is costed. Each begins with the cost `begun`."""

    ledger: Ledger[StackChoice]
    begun: Criteria
    ahead: int
    run: Run
    needs_bound: bool = True

    def best(self, space: StackSpace) -> FoundWay[StackChoice]:
        """Begins with few stacks in few tiles."""
        few = few_stacks(space)
        fewest = replace(few, tilings=FewTilings(space))
        if not self.needs_bound:
            return self._best_in_time((fewest, few, space))
        start = self._no_worse(fewest, self._better(fewest, None))
        search = self._search(space)
        start = self._no_worse(few, self._better(space, self._better(few, start)))
        search.refresh()
        return best_of([search], self.run, "strategies", start)

    def _best_in_time(self, spaces: Sequence[StackSpace]) -> FoundWay[StackChoice]:
        """The last space has all strategies; where there is no time to look at all, nothing is proven of them."""
        start: PathToPlace[StackChoice] | None = None
        try:
            for space in spaces:
                start = self._better(space, start)
            for space in spaces[:-1]:
                start = self._no_worse(space, start)
            return best_of([self._search(spaces[-1])], self.run, "strategies", start)
        except NoBoundError:
            return self._unproven(start, 0, self.run.stop or Stop.TIME_LIMIT)

    def best_shared(self, space: StackSpace, parts: Iterator[StackSpace]) -> FoundWay[StackChoice]:
        """Of the parts of a space, in each of which all stacks share a tiling; stopped early, a bound of all of it."""
        searches: list[LazySearch[StackChoice]] = []
        try:
            for part in parts:
                searches.append(self._search(part))
                if (stopped := self.run.stop) and next(parts, None) is not None:
                    found, all_of_it = best_of(searches, self.run, "strategies"), self._search(space).way
                    return self._unproven(found.way, all_of_it.value if all_of_it else 0, stopped)
        except NoBoundError:
            found = best_of(searches, self.run, "strategies")
            return self._unproven(found.way, 0, self.run.stop or Stop.TIME_LIMIT)
        return best_of(searches, self.run, "strategies")

    @staticmethod
    def _unproven(way: PathToPlace[StackChoice] | None, lower_bound: int, stopped_by: Stop) -> FoundWay[StackChoice]:
        return FoundWay(Status.UNKNOWN if way is None else Status.FEASIBLE, way, lower_bound, stopped_by)

    def _search(self, space: StackSpace) -> LazySearch[StackChoice]:
        if not self._has_time_for(space):
            raise NoBoundError
        return LazySearch(*space.arcs(), self.begun, self.ledger, self.ahead, self.run, self.needs_bound)

    def _has_time_for(self, space: StackSpace) -> bool:
        """Whether all its stacks can be listed before the run has to stop; they always are where a bound is needed."""
        if self.needs_bound:
            return True
        return self.run.stop is None and len(space.spans) * SECONDS_OF_A_STACK <= self.run.seconds_left

    def _no_worse(self, space: StackSpace, best: PathToPlace[StackChoice] | None) -> PathToPlace[StackChoice] | None:
        """No worse than any of the space, proven if there is time; what is proven of it is not of a larger one."""
        return best_of([self._search(space)], without_bound(self.run), "first strategies", best).way or best

    def _better(self, space: StackSpace, best: PathToPlace[StackChoice] | None) -> PathToPlace[StackChoice] | None:
        """The best that estimates lead to, or that there is."""
        if not self._has_time_for(space):
            return best
        arcs, last = replace(space, tilings=ThinnedTilings(space.tilings)).arcs()
        every = [replace(arc, choices=tuple(one for choice in arc.choices for one in choice.singly())) for arc in arcs]
        search = GuidedSearch(every, last, self.begun, Estimates(self.ledger, _kind), self.ahead, best)
        return search.improve(self.run, "first strategies")


def _values_beside(
    choices: Sequence[StackChoice], ledger: Ledger[StackChoice]
) -> Mapping[StackChoice, tuple[int, bool]]:
    """Of the stacks that are chosen, in whatever tiles."""
    chosen = {one.without_tiles for one in choices}
    return {one: value for one, value in ledger.values().items() if one.box is None and one.without_tiles in chosen}


def _kind(choice: StackChoice) -> tuple[OverlapMode, int]:
    """Bounds of choices of a kind are about equally far below costs."""
    return choice.tiling.mode, choice.span.length.bit_length()


def strategy_of(
    network: FusableNetwork, choices: Sequence[StackChoice], costs: Sequence[StackCost] = ()
) -> FusionStrategy:
    """Return the stacks that were chosen, layers by name, with the mappings that their costs are of."""
    stacks = tuple(
        StackStrategy(
            tuple(layer.name for layer in network.layers[one.span.start : one.span.stop]),
            one.tiling,
            one.output_home,
        )
        for one in choices
    )
    return FusionStrategy(stacks, tile_mappings(costs), tuple(one.name for one in network.moved))


def choices_of(network: FusableNetwork, strategy: FusionStrategy, spans: Sequence[LayerSpan]) -> Iterator[StackChoice]:
    """The stacks of a strategy, which are `spans`, each with the maps that lie on chip while it runs."""
    homes: dict[str, str] = {}
    for span, stack in zip(spans, strategy.stacks, strict=True):
        read = {read.source for layer in network.layers[span.start :] for read in layer.reads}
        alive = {layer.output.name for layer in network.layers[: span.start]} & read
        kept = tuple((name, memory) for name, memory in homes.items() if name in alive)
        yield StackChoice(span, stack.tiling, kept, stack.output_home)
        if stack.output_home != DRAM:
            homes[network.layers[span.stop - 1].output.name] = stack.output_home
