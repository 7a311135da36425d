"""From what is asked to the best fusion strategy: where to cut, in which tiles, in which mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import Criteria, FusionObjective, sum_of, value_of
from onchip.answer.options.fusion_options import OPTIMAL, Combination, FusionOptions
from onchip.answer.result import Result, Status, Stop
from onchip.answer.stacks import OverlapMode, StackStrategy
from onchip.answer.strategy import FusionStrategy, TileMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.group.cost import StackCost
from onchip.model.group.moved import moved_sums
from onchip.ops.derive.fusable import FusableNetwork
from onchip.scheduling.candidates.space import StackSpace
from onchip.scheduling.candidates.spaces import (
    FewTilings,
    ensure_a_tile_fits,
    few_stacks,
    shared_spaces,
    space_described,
    space_of,
    spans_of_option,
    thinned,
)
from onchip.scheduling.choice.guided import Estimates, GuidedSearch
from onchip.scheduling.choice.search import FoundWay, LazySearch, best_of
from onchip.scheduling.choice.ways import Arc, NoBoundError, PathToPlace
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.scheduling.fronts.costs import StackCosts, criteria_of
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import with_bound, without_bound
from onchip.transform.groups.stack_choice import StackChoice
from onchip.transform.groups.stacks import LayerSpan

FEW_HOMES: Final = 8
"""Ways to place the maps alive at a cut, for a good answer early."""
SHARE_OF_LISTING: Final = 0.4
"""Of the time that is left, to look at all stacks and homes before more of them are tried."""
SHARE_OF_IMPROVING: Final = 0.5
"""Of the time that is left then, for better strategies before bounds are raised."""


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The strategy, its stacks with what they cost, and how many stacks have been costed for it.

    `values` says them of its stacks in all tiles, calculated when they are asked for: in the unit of the objective, and
    whether that is the cost or only a bound.
    """

    result: Result[FusionStrategy]
    stacks: tuple[tuple[StackChoice, StackCost], ...]
    costed: int
    space: str
    values: Callable[[], Mapping[StackChoice, tuple[int, bool]]]


def solve_fusion(
    network: FusableNetwork, accelerator: Accelerator, options: FusionOptions, costs: StackCosts, run: Run
) -> FusionResult:
    """The strategy of least objective value in the space that the options span; raises UsageError for bad ones.

    Where the run has to stop, the bound is at least the floor of all layers.
    """
    spans = spans_of_option(network, accelerator, options.stacks)
    ensure_a_tile_fits(network, spans, options)
    begun = cost_of_moved(network, accelerator, costs.objective)
    least = least_value(costs)
    solver = Solver(Ledger[StackChoice](costs), begun, options.ahead, with_bound(run, least))
    space = space_of(network, accelerator, spans, options)
    if options.combination is Combination.BEST:
        found = solver.best(space)
    else:
        found = solver.best_shared(shared_spaces(space, options))
    choices = found.way.choices if found.way else ()
    stacks = tuple((choice, costs.found[choice]) for choice in choices)
    result = Result(
        found.status,
        strategy_of(network, choices, [cost for _, cost in stacks]) if found.way else None,
        found.way.value if found.way else None,
        found.lower_bound if found.status is Status.INFEASIBLE else max(found.lower_bound, least),
        run.seconds,
        OPTIMAL,
        found.stopped_by,
    )
    return FusionResult(
        result,
        stacks,
        len(solver.ledger.known),
        space_described(space, options),
        partial(_values_beside, choices, space, solver.ledger),
    )


def least_value(costs: StackCosts) -> int:
    """Return what no strategy costs less than, in the unit of the objective: the floor of its layers and what moves."""
    return value_of(sum_of([cost_of_moved(costs.network, costs.accelerator, costs.objective), costs.floor()]))


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

    def best(self, space: StackSpace) -> FoundWay[StackChoice]:
        """Begins with few stacks in few tiles; where there is no time to look at all, nothing is proven of them."""
        few = few_stacks(space)
        fewest = replace(few, tilings=FewTilings(space))
        if self.run.deadline.is_set:
            return self._best_in_time(space, (fewest, few))
        start: PathToPlace[StackChoice] | None = None
        try:
            near = replace(fewest, most_homes=FEW_HOMES)
            start = self._better(near, None) if near.in_dram != fewest.in_dram else None
            start = self._no_worse(fewest, self._better(fewest, start))
            search = self._search(space, self.run)
            start = self._no_worse(few, self._better(space, self._better(few, start)))
            search.refresh()
            return best_of([search], self.run, "strategies", start)
        except NoBoundError:
            return self._unproven(start, 0)

    def _best_in_time(self, space: StackSpace, first: Sequence[StackSpace]) -> FoundWay[StackChoice]:
        """Begins with the bound of all, if they can be listed in a share of the time; then strategies of few homes."""
        start: PathToPlace[StackChoice] | None = None
        start = self._better(replace(first[0], most_homes=FEW_HOMES), start)
        listing = self.run.within(SHARE_OF_LISTING * self.run.seconds_left)
        try:
            arcs, last = space.arcs(self.run)
            search = LazySearch(arcs, last, self.begun, self.ledger, self.ahead, self.run, listing)
        except NoBoundError:
            return self._unproven(start, 0)
        few = set(first[1].spans)
        own = [
            arc
            for arc, is_looked_at in zip(arcs, search.looked_at, strict=True)
            if is_looked_at or (arc.choices and arc.choices[0].span in few)
        ]
        improving = replace(self, run=self.run.within(SHARE_OF_IMPROVING * self.run.seconds_left))
        start = improving.improved(space, own, last, first, start)
        search.refresh()
        return best_of([search], self.run, "strategies", start)

    def improved(
        self,
        space: StackSpace,
        arcs: Sequence[Arc[StackChoice]],
        last: int,
        first: Sequence[StackSpace],
        best: PathToPlace[StackChoice] | None,
    ) -> PathToPlace[StackChoice] | None:
        """Return the best that some time is enough for: of few homes (half of it), over these arcs, of first spaces."""
        near = replace(space, most_homes=FEW_HOMES)
        if near.in_dram != space.in_dram:
            half = replace(self, run=self.run.within(self.run.seconds_left / 2))
            best = half._better(near, best)
        best = self._better_over(arcs, last, best)
        for few in first:
            best = self._no_worse(few, best)
        return best

    def best_shared(self, parts: Iterator[StackSpace]) -> FoundWay[StackChoice]:
        """Of the parts of a space, in each of which all stacks share a tiling."""
        searches: list[LazySearch[StackChoice]] = []
        try:
            searches.extend(self._search(part, self.run) for part in parts)  # those before an error stay
        except NoBoundError:
            return self._unproven(best_of(searches, self.run, "strategies").way, 0)
        return best_of(searches, self.run, "strategies")

    def _unproven(self, way: PathToPlace[StackChoice] | None, lower_bound: int) -> FoundWay[StackChoice]:
        status = Status.UNKNOWN if way is None else Status.FEASIBLE
        return FoundWay(status, way, lower_bound, self.run.stop or Stop.TIME_LIMIT)

    def _search(self, space: StackSpace, run: Run) -> LazySearch[StackChoice]:
        return LazySearch(*space.arcs(run), self.begun, self.ledger, self.ahead, run)

    def _no_worse(self, space: StackSpace, best: PathToPlace[StackChoice] | None) -> PathToPlace[StackChoice] | None:
        """No worse than any of the space, proven if there is time; what is proven of it is not of a larger one."""
        try:
            search = self._search(space, self.run)
        except NoBoundError:
            return best
        return best_of([search], without_bound(self.run), "first strategies", best).way or best

    def _better(self, space: StackSpace, best: PathToPlace[StackChoice] | None) -> PathToPlace[StackChoice] | None:
        """The best that estimates lead to, or that there is."""
        try:
            arcs, last = space.arcs(self.run)
        except NoBoundError:
            return best
        return self._better_over(arcs, last, best)

    def _better_over(
        self, arcs: Sequence[Arc[StackChoice]], last: int, best: PathToPlace[StackChoice] | None
    ) -> PathToPlace[StackChoice] | None:
        """Over these arcs, in only some of many tilings."""
        some = [replace(arc, choices=tuple(map(thinned, arc.choices))) for arc in arcs]
        search = GuidedSearch(some, last, self.begun, Estimates(self.ledger, _kind), self.ahead, best)
        return search.improve(self.run, "first strategies")


def _values_beside(
    choices: Sequence[StackChoice], space: StackSpace, ledger: Ledger[StackChoice]
) -> Mapping[StackChoice, tuple[int, bool]]:
    """Of the stacks that are chosen, in whatever tiles: values, or bounds of them, and whether they are costed."""
    every = dict.fromkeys(one for choice in choices for one in (choice, *space.in_all_tiles(choice)))
    least = ((one, ledger.at_least(one)) for one in every)
    found = {one: (value_of(criteria), one in ledger.known) for one, criteria in least if criteria is not None}
    chosen = {one.without_tiles for one in choices}
    looked_at = {
        one: value for one, value in ledger.values().items() if one.box is None and one.without_tiles in chosen
    }
    return {**looked_at, **found}


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


def tile_mappings(costs: Sequence[StackCost]) -> tuple[TileMapping, ...]:
    """Return how the layers of stacks run, by the mappings that their costs are of; alike layers of a stack share one.

    Mappings stand in the order in which they are first run by.
    """
    return tuple(one for number, cost in enumerate(costs) for one in _of_stack(number, cost))


def _of_stack(number: int, cost: StackCost) -> Iterator[TileMapping]:
    names: dict[int, dict[str, None]] = {}
    found: list[tuple[LayerProblem, LayerMapping]] = []
    numbers: dict[LayerProblem, int] = {}
    for tile in cost.placed:
        for layer in tile.layers:
            if layer.problem not in numbers:
                numbers[layer.problem] = len(found)
                found.append((layer.problem, layer.mapping))
            names.setdefault(numbers[layer.problem], {})[layer.name] = None
    for at, (problem, mapping) in enumerate(found):
        yield TileMapping(number, tuple(names[at]), problem.layer, problem.homes, mapping, problem.room_bytes)
