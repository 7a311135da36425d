"""From what is asked to the best fusion strategy: where to cut, in which tiles, in which mode."""

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
from onchip.scheduling.choice.guided import SHARES, Estimates, GuidedSearch
from onchip.scheduling.choice.search import FoundWay, LazySearch, best_of
from onchip.scheduling.choice.ways import Arc, NoBoundError, PathToPlace
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.scheduling.fronts.costs import StackCosts, criteria_of
from onchip.search.budget.limits import Progress, Run
from onchip.search.strategy.stage import with_bound, without_bound
from onchip.transform.groups.stack_choice import StackChoice
from onchip.transform.groups.stacks import LayerSpan, single_layers, stack_count

FEW_HOMES: Final = 8
"""Ways to place the maps alive at a cut, for a good answer early."""
SECONDS_OF_A_STACK: Final = 2e-5
"""To list each that there may be, whatever it costs, which cannot be cut off."""
SHARE_OF_LISTING: Final = 0.4
"""Of the time that is left, to look at all stacks and homes before more of them are tried."""
NEAR_LAYERS: Final = 4
"""Of groups of more layers bounds are looked at later: most is gained by what neighbours pass on to each other."""
SHARE_OF_QUICK: Final = 0.8
"""Of the time that is left, for ways that estimates lead to by the quick mapper; mostly these take a few seconds."""
SHARE_OF_GUIDED: Final = 0.5
"""Of the time that is left then, for ways that estimates lead to by the mapper asked for, before the proof."""


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The strategy, its stacks with what they cost, and how many stacks have been costed for it.

    `is_quick`: the quick mapper has mapped its layers. `values` are those of its stacks in all tiles, calculated when
    they are asked for: in the unit of the objective, and whether that is the cost or only a bound.
    """

    result: Result[FusionStrategy]
    stacks: tuple[tuple[StackChoice, StackCost], ...]
    costed: int
    space: str
    values: Callable[[], Mapping[StackChoice, tuple[int, bool]]]
    is_quick: bool = False


@dataclass(frozen=True, slots=True)
class QuickStart:
    """Costs by a mapper that takes milliseconds, and a way by these, if one is known.

    `is_within`: all of its mappings are among those that the mapper asked for chooses the best of.
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
    """The strategy of least objective value in the space that the options span; raises UsageError for bad ones.

    Where the run has to stop, the bound is at least the floor of all layers, and the strategy may be a quick one.
    """
    start = None if quick is None else quick.way
    count = stack_count(network) if start is not None and options.stacks == OPTIMAL else 0
    is_listed = count * SECONDS_OF_A_STACK <= run.seconds_left
    spans = spans_of_option(network, accelerator, options.stacks) if is_listed else single_layers(network)
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
    result = Result(
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
    """Return what no strategy costs less than, in the unit of the objective: the floor of its layers and what moves."""
    return value_of(sum_of([cost_of_moved(costs.network, costs.accelerator, costs.objective), costs.floor()]))


def cost_of_moved(network: FusableNetwork, accelerator: Accelerator, objective: FusionObjective) -> Criteria:
    """Return what the operators cost that run beside the stacks, whatever these are."""
    moved = moved_sums(network.moved, accelerator)
    return sum_of([objective.zero, *(criteria_of(objective, one) for one in moved)])


@dataclass(frozen=True, slots=True)
class Solver:
    """Good strategies first, then the proof; all of it shares what is costed. Each begins with the cost `begun`.

    With a `guide`, which costs quickly, estimates lead to ways by its costs first. One that `is_quick` goes where the
    estimates lead, and no further.
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
        """Return the best way, and the best one by the costs of the guide, which is no worse than `start`.

        Begins with few stacks in few tiles. Where there is no time to list all stacks, nothing is proven of them.
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
        """Return as `best` the best of the parts of a space, in each of which all stacks share a tiling."""
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
            searches.extend(  # those before an error stay
                LazySearch(*part.arcs(self.run), self.begun, self.ledger, self.ahead, self.run) for part in parts
            )
        except NoBoundError:
            way = best_of(searches, self.run, "strategies", start).way if searches else start
            return self.unproven(way)
        return best_of(searches, self.run, "strategies", start)

    def _within(self, share: float) -> Solver:
        """Return the same solver with a share of the time that is left, if that is limited."""
        return replace(self, run=self.run.within(share * self.run.seconds_left)) if self.run.deadline.is_set else self

    def _knowing(self, way: PathToPlace[StackChoice] | None) -> Solver:
        """Return the same solver, which tells the value of a way until there is a better one."""
        if way is None:
            return self
        value, run = way.value, self.run

        def listen(heard: Progress) -> None:
            best = value if heard.best is None else min(value, heard.best)
            run.listener(replace(heard, best=best, lower_bound=min(best, heard.lower_bound)))

        return replace(self, run=replace(run, listener=listen))

    def _costed(self, way: PathToPlace[StackChoice] | None) -> PathToPlace[StackChoice] | None:
        """Return the same choices at their costs, None without a way, or if there is no time to cost them."""
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
        """Return the way, if there is one, as an answer of which nothing is proven."""
        status = Status.UNKNOWN if way is None else Status.FEASIBLE
        return FoundWay(status, way, 0, self.run.stop or Stop.TIME_LIMIT)

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
        shares = SHARES[:1] if self.is_quick else SHARES
        search = GuidedSearch(some, last, self.begun, Estimates(self.ledger, _kind), self.ahead, best, shares)
        return search.improve(self.run, "first strategies")


def _is_long(choice: StackChoice) -> bool:
    return choice.span.length > NEAR_LAYERS


def _some_of(search: LazySearch[StackChoice], spans: Container[LayerSpan]) -> list[Arc[StackChoice]]:
    """Return the arcs that have been looked at, and those of some spans."""
    pairs = zip(search.arcs, search.looked_at, strict=True)
    return [arc for arc, is_looked_at in pairs if is_looked_at or (arc.choices and arc.choices[0].span in spans)]


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
