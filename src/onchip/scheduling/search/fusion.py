"""The search for a fusion strategy: groups of layers, their tiles and modes, and the homes of maps between groups.

Groups are costed alone, by counted tile types. Groups that are given are costed in every tiling of the list, so the
answer is the best of these. Otherwise groups grow as those of schedules do (`growth.py`), each in the tiling to which a
descent leads. A mapper that takes milliseconds leads the search; the requested mapper maps the layers of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import FusionObjective, sum_of, value_of
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import OPTIMAL, Combination, FusionOptions
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy, TileMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.errors import UsageError
from onchip.model.group.cost import StackCost
from onchip.ops.fusable import FeatureMap, FusableNetwork
from onchip.scheduling.candidates.given import ensure_a_tile_fits, spans_of_option
from onchip.scheduling.candidates.grouping import demand_of
from onchip.scheduling.candidates.growth import Growth
from onchip.scheduling.candidates.tile_sizes import TilingList
from onchip.scheduling.fronts.costs import Costing, StackCosts
from onchip.scheduling.fronts.mappers import CostingStoppedError
from onchip.scheduling.fronts.stack_front import (
    Operators,
    StackDemand,
    StackFront,
    StackOption,
    StackPrices,
    cheapest_cuts,
)
from onchip.scheduling.params import ScheduleParams
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, is_legal, single_layers, units_of, whole

MANY_SIZES = 4
"""Lists of sizes longer than this that contain every size are printed as a range."""
FAR = 10**40
"""Bytes, cycles and femtojoules of a group that does not fit: other cuts are better, if there are any."""
SCHEDULE_OBJECTIVES = {
    FusionObjective.ENERGY: ScheduleObjective.ENERGY,
    FusionObjective.LATENCY: ScheduleObjective.LATENCY,
    FusionObjective.EDP: ScheduleObjective.EDP,
    FusionObjective.DRAM: ScheduleObjective.TRAFFIC,
}


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The strategy, its groups with their costs, and the number of groups costed; `mapper` mapped their layers.

    `values` are the values of costed groups by choice, in the objective's unit. `why_not` is a reason why some group
    does not fit.
    """

    result: SearchResult[FusionStrategy]
    stacks: tuple[tuple[StackChoice, StackCost], ...]
    costed: int
    space: str
    mapper: str
    values: Mapping[StackChoice, int] = field(default_factory=dict)
    why_not: str | None = None


def solve_fusion(costing: Costing, options: FusionOptions, run: Run) -> FusionResult:
    """Return the best strategy found within the options, OPTIMAL if it is the best of all that they name.

    Raises UsageError for bad options.
    """
    costs, quickly = costing.costs(run), costing.quick
    quick = costs if quickly.mapper == costing.mapper else quickly.costs(run)
    return best_strategy(costs, costing.within(options), run, quick)


def best_strategy(costs: StackCosts, options: FusionOptions, run: Run, quick: StackCosts | None = None) -> FusionResult:
    """Return the best strategy by these costs; the `quick` ones lead the search, and answer if time is too short."""
    network, is_open = costs.network, options.groups == OPTIMAL
    given = spans_of_option(network, costs.accelerator, options.groups)
    ensure_a_tile_fits(network, given, options)
    search = _Search(costs, quick or costs, options, run)
    with suppress(CostingStoppedError):
        if not is_open or not network.layers:
            search.compare(given)
        elif options.combination is Combination.SINGLE:
            search.compare_partitions()
        else:
            search.grow()
    return search.result(space_described(network, given, options))


@dataclass(slots=True)
class _Search:
    """The best strategy so far: `choices` by the requested mapper, if it had time for them, else by the quick one."""

    costs: StackCosts
    quick: StackCosts
    options: FusionOptions
    run: Run
    network: FusableNetwork = field(init=False)
    choices: tuple[StackChoice, ...] | None = None
    quick_choices: tuple[StackChoice, ...] | None = None
    is_complete: bool = False

    def __post_init__(self) -> None:
        self.network = self.costs.network

    # Groups that are searched

    def grow(self) -> None:
        """Merge layers to groups by quick costs, then map the layers of the cheapest groups as requested."""
        self._take_quickly(self._layers_alone())
        chosen = self._grown()
        fine = [self._refined(one, self.quick) for one in chosen]
        self._take_quickly(self._with_homes(self._split(fine), self.quick))
        quick = self.quick_choices
        best = chosen if quick is None else [self._refined(one, self.costs) for one in quick]
        self._take(self._with_homes(best, self.costs))

    def _grown(self) -> list[StackChoice]:
        """Return the cheapest cuts into groups that grow, by quick costs.

        If the quick mapper fits no mapping of some layer in any of its groups, the requested mapper leads from there.
        """
        network = self.network
        growth = Growth(self._prices, self.run)
        for span in single_layers(network):
            for one in self._alone_in_tiles(span):
                front = growth.fronts.get(self._names(span), StackFront())
                growth.fronts[self._names(span)] = front.with_option(self._option(one))
        blocks, begun = [self._names(span) for span in units_of(network)], self.run.seconds
        growth.grow(blocks, partial(self._counted, is_coarse=True))
        if not self.run.deadline.is_set or self.run.seconds_left > ScheduleParams().times_as_long * (
            self.run.seconds - begun
        ):
            growth.grow(blocks, partial(self._counted, is_coarse=False))
        alone = [ScheduledStack((layer.name,)) for layer in network.layers]
        chosen = [self._choice(one.stack) for one in cheapest_cuts(alone, growth.fronts, self._prices)]
        if self.quick is self.costs or all(self.quick.criteria(one) is not None for one in chosen):
            return chosen
        self.quick = self.costs
        return self._grown()

    def _layers_alone(self) -> list[StackChoice]:
        """Return each layer alone; it is costed even if the time is over, so that there is an answer."""
        found = [whole_layer(self.network, span) for span in single_layers(self.network)]
        with self.quick.untimed():
            for one in found:
                self.quick.criteria(one)
        return found

    def _alone_in_tiles(self, span: LayerSpan) -> Iterator[StackChoice]:
        layer = self.network.layers[span.start]
        yield whole_layer(self.network, span)
        if self.options.tile is not None and not layer.runs_alone:
            for tiling in TilingList.of(layer.output, self.options).every():
                yield StackChoice(span, tiling)

    def _counted(self, operators: Operators, *, is_coarse: bool) -> StackFront | None:
        """Return the front of a group in the tiling to which a descent leads; None for no legal group."""
        network, span = self.network, self._span(operators)
        if not is_legal(network, span):
            return None
        tiling = self._descended(span, self.quick, is_coarse=is_coarse)
        return None if tiling is None else StackFront((self._option(StackChoice(span, tiling)),))

    def _descended(self, span: LayerSpan, costs: StackCosts, *, is_coarse: bool) -> Tiling | None:
        network = self.network
        output = network.layers[span.stop - 1].output
        capacity = max((8 * one.memory.capacity_bytes for one in self.costs.accelerator.levels), default=0)
        maps = max(
            sum(network.maps[name].size_bits for name in {*(read.source for read in layer.reads), layer.output.name})
            for layer in network.layers[span.start : span.stop]
        )
        most = max(1, int(min(1.0, capacity / max(1, maps)) * output.rows * output.columns))
        tilings = TilingList.of(output, self.options)
        return tilings.descend(most, lambda one: costs.value(StackChoice(span, one)), is_coarse=is_coarse)

    def _split(self, choices: Sequence[StackChoice]) -> Sequence[StackChoice]:
        """Return the groups cut where a map may stay on chip between two parts, as long as that is better."""
        best, value = choices, self._value_with_homes(choices)
        for choice in choices if value is not None else ():
            span = choice.span
            for cut in range(span.start + 1, span.stop):
                spans = LayerSpan(span.start, cut), LayerSpan(cut, span.stop)
                is_cut = self._homes(self.network.layers[cut - 1].output) and choice in best
                if not is_cut or not all(is_legal(self.network, one) for one in spans):
                    continue
                at, parts = best.index(choice), [self._in_tiles(one) for one in spans]
                other = [*best[:at], *(one for one in parts if one is not None), *best[at + 1 :]]
                found = None if None in parts else self._value_with_homes(other)
                if found is not None and value is not None and found < value:
                    best, value = other, found
        return best

    def _in_tiles(self, span: LayerSpan) -> StackChoice | None:
        """Return a group in the tiling to which a descent by quick costs leads; None if none fits."""
        if span.length == 1:
            return whole_layer(self.network, span)
        tiling = self._descended(span, self.quick, is_coarse=False)
        return None if tiling is None else StackChoice(span, tiling)

    def _value_with_homes(self, choices: Sequence[StackChoice]) -> int | None:
        """Return the value of groups by quick costs, with maps between them on chip; None if one does not fit."""
        placed = self._with_homes(choices, self.quick)
        return None if any(one not in self.quick.found for one in placed) else self._value(placed, self.quick)

    def _refined(self, choice: StackChoice, costs: StackCosts) -> StackChoice:
        """Return the group in the tiling to which a descent leads, if that is better."""
        if choice.span.length == 1:
            return choice
        tiling = self._descended(choice.span, costs, is_coarse=False)
        other = choice if tiling is None else StackChoice(choice.span, tiling)
        values = {one: value for one in (choice, other) if (value := costs.value(one)) is not None}
        return min(values, key=values.__getitem__, default=choice)

    # Groups that are given

    def compare_partitions(self) -> None:
        """Compare the partitions that options name, and the groups that grow if nothing else fits.

        One tiling for all groups of an open partition is not searched.
        """
        for groups in ("layers", "greedy", "one"):
            with suppress(UsageError):
                self.compare(spans_of_option(self.network, self.costs.accelerator, groups))
        if self.choices is None and self.quick_choices is None:
            self.compare([one.span for one in self._grown()])
        self.is_complete = False

    def compare(self, spans: Sequence[LayerSpan]) -> None:
        """Cost the given groups in every tiling of the list, first quickly."""
        candidates = list(self._shared(spans)) if self.options.combination is Combination.SINGLE else []
        tried = {span: self._tilings(span) for span in spans}
        every = [one for own in tried.values() for one in own]
        for costs, take in ((self.quick, self._take_quickly), (self.costs, self._take)):
            with suppress(CostingStoppedError):
                costs.learn(every)
            self.is_complete = all(one in costs.found or one in costs.refusals for one in every)
            best = self._cheapest_shared(candidates, costs) if candidates else self._cheapest_each(tried, costs)
            if best is not None:
                take(self._with_homes(best, costs))
        between = [self.network.layers[span.stop - 1].output for span in spans[:-1]]
        self.is_complete &= not any(self._homes(one) for one in between)
        # Of a product of sums, the best of each group need not be the best together.
        self.is_complete &= len(self.costs.objective.zero) == 1 or all(len(own) == 1 for own in tried.values())

    def _tilings(self, span: LayerSpan) -> list[StackChoice]:
        layer = self.network.layers[span.stop - 1]
        if span.length == 1:
            return list(self._alone_in_tiles(span))
        return [StackChoice(span, one) for one in TilingList.of(layer.output, self.options).every()]

    def _shared(self, spans: Sequence[LayerSpan]) -> Iterator[list[list[StackChoice]]]:
        """Yield for each tiling the choices of every group in it, clipped to the group's last map.

        A layer alone may also run as one tile.
        """
        network = self.network
        outputs = [network.layers[span.stop - 1].output for span in spans]
        tiled = [one for span, one in zip(spans, outputs, strict=True) if span.length > 1] or outputs
        largest = max(tiled, key=lambda one: one.rows * one.columns)
        tried = {span: set(self._tilings(span)) for span in spans}
        for tiling in dict.fromkeys(
            Tiling(*size, mode) for mode in self.options.modes for size in _sizes(largest, self.options)
        ):
            found = []
            for span, output in zip(spans, outputs, strict=True):
                own = StackChoice(span, tiling.within(output.columns, output.rows))
                one_tile = [whole_layer(network, span)] if span.length == 1 else []
                found.append([one for one in dict.fromkeys((*one_tile, own)) if one in tried[span]])
            yield found

    def _cheapest_each(
        self, tried: Mapping[LayerSpan, Sequence[StackChoice]], costs: StackCosts
    ) -> list[StackChoice] | None:
        found = [_cheapest(own, costs) for own in tried.values()]
        chosen = [one for one in found if one is not None]
        return chosen if len(chosen) == len(found) else None

    def _cheapest_shared(
        self, candidates: Sequence[Sequence[Sequence[StackChoice]]], costs: StackCosts
    ) -> list[StackChoice] | None:
        every = [[_cheapest(own, costs) for own in groups] for groups in candidates]
        chosen = [[one for one in found if one is not None] for found in every if None not in found]
        return min(chosen, key=lambda one: self._value(one, costs), default=None)

    # Homes of maps between groups

    def _with_homes(self, choices: Sequence[StackChoice], costs: StackCosts) -> tuple[StackChoice, ...]:
        """Return the groups with the maps between them moved on chip, one at a time, if the move lowers the cost."""
        homes: dict[str, str] = {}
        best, network = self._resident(choices, homes), self.network
        if any(costs.value(one) is None for one in best):
            return tuple(best)
        value = self._value(best, costs)
        for choice in choices[:-1]:
            output = network.layers[choice.span.stop - 1].output
            for memory in self._homes(output):
                other = self._resident(choices, {**homes, output.name: memory})
                if not self._fit(other):
                    continue
                with suppress(CostingStoppedError):
                    if any(costs.value(one) is None for one in other):
                        continue
                    if self._value(other, costs) < value:
                        homes[output.name], best, value = memory, other, self._value(other, costs)
        return tuple(best)

    def _resident(self, choices: Sequence[StackChoice], homes: Mapping[str, str]) -> list[StackChoice]:
        """Return the choices with these homes of maps, from the group that writes a map to the last that reads it."""
        network, until = self.network, self.network.last_readers
        found = []
        for choice in choices:
            alive = tuple(
                (name, memory)
                for layer in network.layers[: choice.span.start]
                if until.get(name := layer.output.name, 0) >= choice.span.start
                for memory in (homes.get(name),)
                if memory is not None
            )
            own = network.layers[choice.span.stop - 1].output.name
            found.append(replace(choice, homes=alive, output_home=homes.get(own, DRAM)))
        return found

    def _fit(self, choices: Sequence[StackChoice]) -> bool:
        """Return True if the maps that stay on chip fit their memories together while each group runs."""
        maps = self.network.maps
        capacity = {one.memory.name: one.memory.capacity_bytes for one in self.costs.accelerator.levels}
        for choice in choices:
            output = self.network.layers[choice.span.stop - 1].output.name
            own = ((output, choice.output_home),) if choice.output_home != DRAM else ()
            taken = dict.fromkeys(capacity, 0)
            for name, memory in (*choice.homes, *own):
                taken[memory] += maps[name].size_bits
            if any(bits > 8 * capacity[memory] for memory, bits in taken.items()):
                return False
        return True

    def _homes(self, output: FeatureMap) -> list[str]:
        """Return the memories on chip in which a map between groups may stay whole."""
        network, accelerator = self.network, self.costs.accelerator
        if not self.options.maps_stay or output.name in network.outputs or output.name not in network.last_readers:
            return []
        holding = [one.memory for one in accelerator.levels if _is_home(one, accelerator)]
        return [one.name for one in holding if output.size_bits <= 8 * one.capacity_bytes]

    # The best so far

    def _take_quickly(self, choices: Sequence[StackChoice]) -> None:
        self.quick_choices = self._better(choices, self.quick_choices, self.quick)
        if self.quick is self.costs:
            self.choices = self.quick_choices

    def _take(self, choices: Sequence[StackChoice]) -> None:
        self.choices = self._better(choices, self.choices, self.costs)

    def _better(
        self, choices: Sequence[StackChoice], best: tuple[StackChoice, ...] | None, costs: StackCosts
    ) -> tuple[StackChoice, ...] | None:
        if any(one not in costs.found for one in choices):
            return best
        if best is None or self._value(choices, costs) < self._value(best, costs):
            best = tuple(choices)
            self.run.report(self._value(best, costs), 0, f"{len(best)} groups")
        return best

    def _value(self, choices: Sequence[StackChoice], costs: StackCosts) -> int:
        """Return the value of groups that are costed, with the operators outside of them."""
        criteria = [found for one in choices if (found := costs.criteria(one)) is not None]
        return value_of(sum_of([self.costs.moved, *criteria]))

    def result(self, space: str) -> FusionResult:
        """Return the best strategy by the requested mapper, else by the quick one."""
        is_quick = self.choices is None and self.quick_choices is not None
        costs, choices = (self.quick, self.quick_choices) if is_quick else (self.costs, self.choices)
        stacks = tuple((one, costs.found[one]) for one in choices or ())
        value = None if choices is None else self._value(choices, costs)
        is_proven = self.is_complete and not is_quick
        refusals = (*self.costs.refusals.values(), *self.quick.refusals.values())
        why_not = next(map(str, refusals), None)
        status = Status.FEASIBLE
        if choices is None:
            status = Status.INFEASIBLE if self.is_complete else Status.UNKNOWN
        elif is_proven:
            status = Status.OPTIMAL
        result = SearchResult(
            status,
            None if choices is None else strategy_of(self.network, choices, [cost for _, cost in stacks]),
            value,
            value if value is not None and is_proven else 0,
            self.run.seconds,
            OPTIMAL,
            Stop.COMPLETED if is_proven else self.run.stop or Stop.COMPLETED,
        )
        values = {one: value for one in costs.found if (value := costs.value(one)) is not None}
        return FusionResult(result, stacks, len(costs.found), space, costs.method, values, why_not)

    # Groups by the names of their layers

    def _names(self, span: LayerSpan) -> Operators:
        return tuple(layer.name for layer in self.network.layers[span.start : span.stop])

    def _span(self, operators: Operators) -> LayerSpan:
        number = {layer.name: at for at, layer in enumerate(self.network.layers)}
        return LayerSpan(number[operators[0]], number[operators[-1]] + 1)

    def _choice(self, stack: ScheduledStack) -> StackChoice:
        span = self._span(stack.operators)
        return whole_layer(self.network, span) if stack.tiling is None else StackChoice(span, stack.tiling)

    def _option(self, choice: StackChoice) -> StackOption:
        """Return the group with its figures by quick costs; far above all others if it does not fit."""
        fits = self.quick.criteria(choice) is not None
        figures = demand_of(self.quick.found[choice]) if fits else StackDemand({}, FAR, FAR, FAR)
        return StackOption(ScheduledStack(self._names(choice.span), choice.tiling), Places(), figures)

    @property
    def _prices(self) -> StackPrices:
        objective = SCHEDULE_OBJECTIVES[self.costs.objective]
        if objective is not ScheduleObjective.EDP or self.quick_choices is None:
            return StackPrices(objective)
        demands = [demand_of(self.quick.found[one]) for one in self.quick_choices]
        return StackPrices(objective, sum(one.energy_fj for one in demands), sum(one.cycles for one in demands))


def _sizes(output: FeatureMap, options: FusionOptions) -> Iterator[tuple[int, int]]:
    if options.tile is not None:
        yield options.tile
        return
    for columns in options.tile_sizes.along_columns(output.columns):
        for rows in options.tile_sizes.along_rows(output.rows):
            yield columns, rows


def _cheapest(choices: Sequence[StackChoice], costs: StackCosts) -> StackChoice | None:
    """Return the cheapest choice among those that are costed; None without one."""
    values = {one: value for one in choices if one in costs.found and (value := costs.value(one)) is not None}
    return min(values, key=values.__getitem__, default=None)


def _is_home(level: MemoryLevel, accelerator: Accelerator) -> bool:
    """Return True if feature maps may stay whole in a memory: single-instance, for inputs and outputs."""
    dimensions = accelerator.array.dimensions if accelerator.array else {}
    is_one = level.serves is None or set(dimensions) <= set(level.serves)
    return is_one and {Operand.INPUT, Operand.OUTPUT} <= set(level.memory.holds)


def whole_layer(network: FusableNetwork, span: LayerSpan) -> StackChoice:
    """Return a layer alone, in one tile."""
    return StackChoice(span, whole(network.layers[span.start].output))


def space_described(network: FusableNetwork, spans: Sequence[LayerSpan], options: FusionOptions) -> str:
    """Return a description of the strategies that were searched."""
    if not spans:
        return "no operator can run in a fused group"
    count = f"{len(spans)} given fused group{'' if len(spans) == 1 else 's'}"
    cuts = "fused groups with one exit, of any consecutive layers" if options.groups == OPTIMAL else count
    if options.tile is not None:
        tiles = f"tiles of {options.tile[0]} x {options.tile[1]}"
    else:
        largest = max((network.layers[span.stop - 1].output for span in spans), key=lambda one: one.columns * one.rows)
        columns = _listed(options.tile_sizes.along_columns(largest.columns))
        rows = _listed(options.tile_sizes.along_rows(largest.rows))
        tiles = f"tile sizes {options.tile_sizes} (for the largest feature map: columns {columns}; rows {rows})"
    shared = "" if options.combination is Combination.BEST else ", the same for all groups"
    homes = "on chip or in DRAM" if options.maps_stay else "in DRAM"
    alone = "untiled" if options.tile is None else "in these tiles or untiled"
    return (
        f"{cuts}; {tiles}{shared}; overlap modes {', '.join(options.modes)}; single layers {alone}; feature maps "
        f"between groups {homes}; in each tile, memory levels by the model's rule and loop mappings by the mapper"
    )


def _listed(sizes: Sequence[int]) -> str:
    is_every = len(sizes) > MANY_SIZES and len(sizes) == sizes[-1]
    return f"1 to {sizes[-1]}" if is_every else ", ".join(map(str, sizes))


def strategy_of(
    network: FusableNetwork, choices: Sequence[StackChoice], costs: Sequence[StackCost] = ()
) -> FusionStrategy:
    """Return the chosen groups, layers by name, with the mappings that their costs use."""
    groups = tuple(
        StackStrategy(
            tuple(layer.name for layer in network.layers[one.span.start : one.span.stop]), one.tiling, one.output_home
        )
        for one in choices
    )
    return FusionStrategy(groups, tile_mappings(costs), tuple(one.name for one in network.moved))


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
