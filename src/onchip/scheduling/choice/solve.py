"""The solver of fusion strategies: cuts, tilings, and overlap modes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import Criteria, FusionObjective, sum_of, value_of
from onchip.answer.options.fusion_options import OPTIMAL, Combination, FusionOptions
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.stacks import OverlapMode, StackStrategy
from onchip.answer.strategy import FusionStrategy, TileMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.group.cost import StackCost
from onchip.model.group.moved import moved_sums
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.candidates.spaces import (
    FewTilings,
    StackSpace,
    ensure_a_tile_fits,
    few_stacks,
    shared_spaces,
    space_described,
    space_of,
    spans_of_option,
    thinned,
)
from onchip.scheduling.choice.guided import SHARES, Estimates, GuidedSearch
from onchip.scheduling.choice.search import FoundWay, LazySearch, best_of
from onchip.scheduling.choice.ways import Arc, NoBoundError, PathToPlace
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.scheduling.fronts.costs import StackCosts, criteria_of
from onchip.search.budget.limits import Progress, Run
from onchip.search.strategy.start import with_bound, without_bound
from onchip.transform.groups.stacks import LayerSpan, StackChoice, single_layers, stack_count

FEW_HOMES: Final = 8
"""Limit of home assignments per cut for a first answer."""
SECONDS_OF_A_STACK: Final = 2e-5
"""Estimated seconds to list each possible group; listing cannot be interrupted."""
SHARE_OF_LISTING: Final = 0.4
"""Share of the remaining time to expand groups and homes before more of them are tried."""
NEAR_LAYERS: Final = 4
"""Bounds of longer groups are examined later: fusing neighbours gains the most."""
SHARE_OF_QUICK: Final = 0.8
"""Share of the remaining time for the guided search with the quick mapper; it mostly takes a few seconds."""
SHARE_OF_GUIDED: Final = 0.5
"""Share of the time remaining then for the guided search with the requested mapper, before the proof."""


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The strategy, its groups with their costs, and the number of groups costed.

    `is_quick` is True if the quick mapper mapped its layers. `values` returns, on demand, the value of its groups in
    all tilings, in the objective's unit. Each value comes with True if it is a cost, False if it is a bound.
    """

    result: SearchResult[FusionStrategy]
    stacks: tuple[tuple[StackChoice, StackCost], ...]
    costed: int
    space: str
    values: Callable[[], Mapping[StackChoice, tuple[int, bool]]]
    is_quick: bool = False


@dataclass(frozen=True, slots=True)
class QuickStart:
    """Costs by a mapper that takes milliseconds, and a path by these costs, if known.

    `is_within` is True if its mappings are a subset of those over which the requested mapper optimises.
    """

    costs: StackCosts
    ledger: Ledger[StackChoice]
    way: PathToPlace[StackChoice] | None
    is_within: bool


def solve_fusion(
    network: FusableNetwork,
    accelerator: Accelerator,
    options: FusionOptions,
    costs: StackCosts,
    run: Run,
    quick: QuickStart | None = None,
) -> FusionResult:
    """Return the best strategy in the space that the options span; raises UsageError for bad options.

    If the run stops early, the bound is at least the lower bound over all layers, and the strategy may be a quick one.
    """
    start = None if quick is None else quick.way
    count = stack_count(network) if start is not None and options.groups == OPTIMAL else 0
    is_listed = count * SECONDS_OF_A_STACK <= run.seconds_left
    spans = spans_of_option(network, accelerator, options.groups) if is_listed else single_layers(network)
    ensure_a_tile_fits(network, spans, options)
    begun = cost_of_moved(network, accelerator, costs.objective)
    least = least_value(costs)
    space = space_of(network, accelerator, spans, options)
    own_run = with_bound(run, least)
    guide = None if quick is None else Solver(quick.ledger, begun, 1, own_run, is_quick=True)
    ledger = Ledger[StackChoice](costs, rough={} if quick is None else quick.ledger.known)
    solver = Solver(ledger, begun, options.ahead, own_run, guide)
    if not is_listed:
        found, rough = solver.unproven(None), start
    elif options.combination is Combination.BEST:
        found, rough = solver.best(space, start)
    else:
        found, rough = solver.best_shared(lambda: shared_spaces(space, options), start)
    way, own_costs, bound, is_quick = found.way, costs, max(found.lower_bound, least), False
    if quick is not None and rough is not None and found.stopped_by is not Stop.COMPLETED:
        is_quick = way is None or rough.value < way.value
        if is_quick:
            way, own_costs, bound = rough, quick.costs, bound if quick.is_within else least
    choices = way.choices if way else ()
    stacks = tuple((choice, own_costs.found[choice]) for choice in choices)
    result = SearchResult(
        Status.FEASIBLE if is_quick else found.status,
        strategy_of(network, choices, [cost for _, cost in stacks]) if way else None,
        way.value if way else None,
        found.lower_bound if found.status is Status.INFEASIBLE else bound,
        run.seconds,
        OPTIMAL,
        found.stopped_by,
    )
    own_ledger = quick.ledger if quick is not None and is_quick else ledger
    return FusionResult(
        result,
        stacks,
        len(own_ledger.known),
        space_described(space, options, count or None),
        partial(_values_beside, choices, space, own_ledger),
        is_quick,
    )


def least_value(costs: StackCosts) -> int:
    """Return a lower bound on every strategy in the objective's unit, from its layers and data-movement operators."""
    return value_of(sum_of([cost_of_moved(costs.network, costs.accelerator, costs.objective), costs.floor()]))


def cost_of_moved(network: FusableNetwork, accelerator: Accelerator, objective: FusionObjective) -> Criteria:
    """Return the cost of the operators outside fused groups, which is the same for every strategy."""
    moved = moved_sums(network.moved, accelerator)
    return sum_of([objective.zero, *(criteria_of(objective, one) for one in moved)])


@dataclass(frozen=True, slots=True)
class Solver:
    """The two phases of the solver, heuristic and proof, on a shared ledger; all paths begin with the cost `begun`.

    A `guide` with cheap costs finds paths by estimates first. A solver that `is_quick` skips the proof.
    """

    ledger: Ledger[StackChoice]
    begun: Criteria
    ahead: int
    run: Run
    guide: Solver | None = None
    is_quick: bool = False

    def best(
        self, space: StackSpace, start: PathToPlace[StackChoice] | None = None
    ) -> tuple[FoundWay[StackChoice], PathToPlace[StackChoice] | None]:
        """Return the best path, and the guide's best path, which is no worse than `start`.

        Starts with few groups in few tilings. If the time does not suffice to list all groups, no bound is proven.
        """
        guide = self.guide or self
        few = few_stacks(space)
        rough = guide._better(replace(few, tilings=FewTilings(space), most_homes=FEW_HOMES), start)
        try:
            arcs, last = space.arcs(self.run)
            listing = self._within(SHARE_OF_LISTING / 2).run
            is_long = _is_long if self.guide is not None else None
            search = LazySearch(arcs, last, self.begun, self.ledger, self.ahead, self.run, listing, is_long)
        except NoBoundError:
            return self.unproven(rough if guide is self else self._costed(rough)), rough
        spans = frozenset(few.spans)
        if self.guide is not None:
            rough = guide._within(SHARE_OF_QUICK)._better_over(_some_of(search, spans), last, rough)
            with suppress(NoBoundError):
                search.look_farther(self._within(SHARE_OF_LISTING).run)
        near = replace(space, most_homes=FEW_HOMES)
        if near.in_dram != space.in_dram:
            rough = guide._within(SHARE_OF_QUICK / 2)._better(near, rough)
        some = _some_of(search, spans)
        rough = way = guide._within(SHARE_OF_QUICK)._better_over(some, last, rough)
        solver = self
        if guide is not self:
            solver = self._knowing(rough)
            way = solver._within(SHARE_OF_GUIDED)._better_over(some, last, solver._costed(rough))
        search.refresh()
        return best_of([search], solver.run, "strategies", way), rough

    def best_shared(
        self, parts: Callable[[], Iterator[StackSpace]], start: PathToPlace[StackChoice] | None = None
    ) -> tuple[FoundWay[StackChoice], PathToPlace[StackChoice] | None]:
        """Return the best over subspaces with a tiling shared by all groups, as `best` does."""
        if self.guide is None:
            return self._best_of_parts(parts(), start), start
        by_guide = self.guide._within(SHARE_OF_QUICK)
        rough = replace(by_guide, run=without_bound(by_guide.run))._best_of_parts(parts(), start).way
        solver = self._knowing(rough)
        return solver._best_of_parts(parts(), solver._costed(rough)), rough

    def _best_of_parts(
        self, parts: Iterator[StackSpace], start: PathToPlace[StackChoice] | None
    ) -> FoundWay[StackChoice]:
        searches: list[LazySearch[StackChoice]] = []
        try:
            searches.extend(  # subspaces before an error are kept
                LazySearch(*part.arcs(self.run), self.begun, self.ledger, self.ahead, self.run) for part in parts
            )
        except NoBoundError:
            way = best_of(searches, self.run, "strategies", start).way if searches else start
            return self.unproven(way)
        return best_of(searches, self.run, "strategies", start)

    def _within(self, share: float) -> Solver:
        """Return the solver with a share of the remaining time, if time is limited."""
        return replace(self, run=self.run.within(share * self.run.seconds_left)) if self.run.deadline.is_set else self

    def _knowing(self, way: PathToPlace[StackChoice] | None) -> Solver:
        """Return the solver with reports that include the value of `way` until a better path is found."""
        if way is None:
            return self
        value, run = way.value, self.run

        def listen(heard: Progress) -> None:
            best = value if heard.best is None else min(value, heard.best)
            run.listener(replace(heard, best=best, lower_bound=min(best, heard.lower_bound)))

        return replace(self, run=replace(run, listener=listen))

    def _costed(self, way: PathToPlace[StackChoice] | None) -> PathToPlace[StackChoice] | None:
        """Return the same choices at their costs; None without a path, or without time to cost them."""
        found: PathToPlace[StackChoice] = PathToPlace(self.begun)
        choices = () if way is None else way.choices
        for at in range(0, len(choices), self.ahead):
            self.ledger.learn(choices[at : at + self.ahead])
        for choice in choices:
            cost = self.ledger.true(choice)
            if cost is None:
                return None
            found = PathToPlace(tuple(map(int.__add__, found.cost, cost)), choice, found)
        return None if way is None else found

    def unproven(self, way: PathToPlace[StackChoice] | None) -> FoundWay[StackChoice]:
        """Return the path or None as an answer without a proof."""
        status = Status.UNKNOWN if way is None else Status.FEASIBLE
        return FoundWay(status, way, 0, self.run.stop or Stop.TIME_LIMIT)

    def _better(self, space: StackSpace, best: PathToPlace[StackChoice] | None) -> PathToPlace[StackChoice] | None:
        """Return the best of `best` and the path found by estimates in a space."""
        try:
            arcs, last = space.arcs(self.run)
        except NoBoundError:
            return best
        return self._better_over(arcs, last, best)

    def _better_over(
        self, arcs: Sequence[Arc[StackChoice]], last: int, best: PathToPlace[StackChoice] | None
    ) -> PathToPlace[StackChoice] | None:
        """Return the best path over these arcs, with large boxes of tilings thinned."""
        some = [replace(arc, choices=tuple(map(thinned, arc.choices))) for arc in arcs]
        shares = SHARES[:1] if self.is_quick else SHARES
        search = GuidedSearch(some, last, self.begun, Estimates(self.ledger, _kind), self.ahead, best, shares)
        return search.improve(self.run, "first strategies")


def _is_long(choice: StackChoice) -> bool:
    return choice.span.length > NEAR_LAYERS


def _some_of(search: LazySearch[StackChoice], spans: Container[LayerSpan]) -> list[Arc[StackChoice]]:
    """Return the expanded arcs, and the arcs of some spans."""
    pairs = zip(search.arcs, search.looked_at, strict=True)
    return [arc for arc, is_looked_at in pairs if is_looked_at or (arc.choices and arc.choices[0].span in spans)]


def _values_beside(
    choices: Sequence[StackChoice], space: StackSpace, ledger: Ledger[StackChoice]
) -> Mapping[StackChoice, tuple[int, bool]]:
    """Return values of the chosen groups in all tilings, and True for a cost, False for a bound."""
    every = dict.fromkeys(one for choice in choices for one in (choice, *space.in_all_tiles(choice)))
    least = ((one, ledger.at_least(one)) for one in every)
    found = {one: (value_of(criteria), one in ledger.known) for one, criteria in least if criteria is not None}
    chosen = {one.without_tiles for one in choices}
    looked_at = {
        one: value for one, value in ledger.values().items() if one.box is None and one.without_tiles in chosen
    }
    return {**looked_at, **found}


def _kind(choice: StackChoice) -> tuple[OverlapMode, int]:
    """Return the kind of a choice; within a kind, ratios of cost to bound are similar."""
    return choice.tiling.mode, choice.span.length.bit_length()


def strategy_of(
    network: FusableNetwork, choices: Sequence[StackChoice], costs: Sequence[StackCost] = ()
) -> FusionStrategy:
    """Return the chosen groups, layers by name, with the mappings that their costs use."""
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
    """Yield the groups of a strategy, which are `spans`, each with the maps resident during it."""
    homes: dict[str, str] = {}
    for span, stack in zip(spans, strategy.stacks, strict=True):
        read = {read.source for layer in network.layers[span.start :] for read in layer.reads}
        alive = {layer.output.name for layer in network.layers[: span.start]} & read
        kept = tuple((name, memory) for name, memory in homes.items() if name in alive)
        yield StackChoice(span, stack.tiling, kept, stack.output_home)
        if stack.output_home != DRAM:
            homes[network.layers[span.stop - 1].output.name] = stack.output_home


def tile_mappings(costs: Sequence[StackCost]) -> tuple[TileMapping, ...]:
    """Return the mappings of the groups' layers in order of first use; equal layers of a group share one."""
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
