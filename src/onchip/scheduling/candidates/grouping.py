"""Fused groups by the schedule's cost: blocks of the network are merged, and a shortest path chooses the cuts.

A block lies between two positions of the order that a single tensor crosses. Candidates are blocks, and runs of blocks
that grow by merging neighbours. Operators of a block that cannot be one group are merged in the same way. Each
candidate is costed alone, with its inputs and its output in DRAM: its tiles are counted by type, in the tiling to which
a descent leads. The cheapest cuts of the network are then chosen among all candidates and single operators, and the
groups between them are composed tile by tile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from typing import Final, TypeAlias

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import DRAM
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import KEY_SLICE
from onchip.ir.tensor import Role
from onchip.model.group.cost import StackCost, stack_cost
from onchip.model.group.slices import cost_in_slices
from onchip.model.layer.cost import LayerCost
from onchip.model.program.compute_cost import recent_layer_cost
from onchip.ops.channel_slices import CHANNELS, GroupInSlices
from onchip.ops.fusable import FusableNetwork, Layout, Stack, pixels_in_tiles
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import multiplies_matrices
from onchip.scheduling.candidates.given import given_stacks_of
from onchip.scheduling.candidates.growth import Growth
from onchip.scheduling.candidates.tile_sizes import TilingList, best_slices
from onchip.scheduling.fronts.costs import dram_bits_of
from onchip.scheduling.fronts.mappers import CostingStoppedError, MapperInTime
from onchip.scheduling.fronts.stack_front import (
    IN_DRAM,
    Operators,
    StackDemand,
    StackFront,
    StackOption,
    StackPrices,
    Surroundings,
    cheapest_cuts,
)
from onchip.scheduling.moves.residency_path import CheapestWay, FusedStep, ResidencyPath
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.from_strategy import places_of_strategy
from onchip.scheduling.program.movements import OnChip
from onchip.scheduling.program.places import Places, memory_for_maps, places_inside
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice
from onchip.transform.groups.tile_graph import part_of_network
from onchip.without_collecting import without_collecting

FEWEST_STRIPS: Final = 4
"""Placements in strips of rows that are compared: more strips read what the group reads whole more often."""
MOST_NEIGHBOURS: Final = 3
"""Operators in a row up to which every run is a candidate."""
Structure: TypeAlias = str
"""Description of a group without names: groups with the same one have the same cost."""
GroupKey: TypeAlias = tuple[bool, Structure, tuple[object, ...]]
"""True for a coarse search of tilings, a group, and what is around it."""


@dataclass(frozen=True, slots=True)
class GivenGroups:
    """The groups that options name, with their placements; `left_alone` has the ends of those that do not fit."""

    stacks: Sequence[ScheduledStack]
    places: Places
    left_alone: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Layers:
    """A run of operators as a separate network, with its slices of channels by their size as far as they are known."""

    graph: Graph
    network: FusableNetwork
    _slices: dict[int, GroupInSlices | InputError] = field(default_factory=dict)

    def in_slices(self, channels: int) -> GroupInSlices:
        """Return the group in slices. Raises InputError if it has no such slices."""
        if channels not in self._slices:
            try:
                self._slices[channels] = GroupInSlices.of(self.graph, tuple(self.graph.operator), channels)
            except InputError as error:
                self._slices[channels] = error
        found = self._slices[channels]
        if isinstance(found, InputError):
            raise found
        return found


@dataclass(slots=True)
class Grouper:
    """The choice of fused groups; `options` fix their tile or their mode.

    It starts from the schedule `alone`, which runs operator by operator. Without one, groups have to be given.
    """

    maker: AttemptMaker
    alone: ScheduleAttempt | None
    options: FusionOptions
    _fronts: dict[GroupKey, tuple[Operators, StackFront]] = field(default_factory=dict, init=False)
    _mapped: dict[LayerProblem, LayerCost | None] = field(default_factory=dict, init=False)
    _tilings: dict[Structure, dict[Tiling, None]] = field(default_factory=dict, init=False)
    """Good tilings of groups by their structure, whatever is around them."""
    _fine: set[GroupKey] = field(default_factory=set, init=False)
    """Groups between tensors on chip whose tilings are not coarse any more."""
    _layers: dict[Operators, _Layers | None] = field(default_factory=dict, init=False)
    written: Mapping[str, Sequence[str]] = field(init=False)
    """Map from each operator to its outputs; a concatenation that is not made has those that it joins."""
    memory: str | None = field(init=False)
    """The largest memory that holds feature maps, in which groups keep theirs."""

    def __post_init__(self) -> None:
        question = self.maker.question
        self.memory = memory_for_maps(question.accelerator)
        self.written = {
            one.name: one.inputs if one.name in question.views else one.outputs for one in question.network.operators
        }

    def chosen(self, run: Run) -> Iterator[tuple[Sequence[ScheduledStack], Places]]:
        """Yield groups and their placements, each time better ones: at first between maps in DRAM, at once.

        Then they are those of the cheapest way through the network with the tensors on chip as its state. Groups that
        lie on it get better tilings, until all on the way have them. Yields nothing if no group is chosen.
        """
        alone = self.alone
        if self.memory is None or alone is None:
            return
        params = self.maker.params
        counting = run.within(params.share_of_counting * run.seconds_left) if run.deadline.is_set else run
        far, written = self._far(alone), self.written

        def front_of(operators: Operators) -> StackFront | None:
            # A group can save little if all its inner maps are near the MACs anyway.
            is_worth_it = far.intersection(name for one in operators[:-1] for name in written[one])
            return self._front_of(operators, counting, is_coarse=True) if is_worth_it else None

        growth = Growth(self._prices, counting)
        for at, (stack, one) in enumerate(zip(alone.stacks, alone.improver.best.composition.composed, strict=True)):
            figures = StackDemand({}, one.traffic_bytes, one.cycles, one.energy_fj)
            own = alone.places.renumbered({at: 0})
            growth.fronts[stack.operators] = StackFront((StackOption(stack, own, figures),))
        growth.grow(list(self._blocks(alone)), front_of)
        coarse = cheapest_cuts(alone.stacks, growth.fronts, self._prices)
        if run.deadline.is_set and any(len(one.stack.operators) > 1 for one in coarse):
            yield together(coarse)
        steps = _StepsBetween(self, alone, growth.looked_at, run)
        path = ResidencyPath(alone.improver.composer, self._prices, params.labels, is_narrow=True)
        way: CheapestWay | None = None
        while run.stop is None:
            way = path.found_with_groups(alone.places, run, steps.after) or way
            if way is None or not self._refined(way.fused, run):
                break
        if way is not None and way.fused:
            yield way.stacks, way.places

    def _refined(self, fused: Sequence[FusedStep], run: Run) -> bool:
        """Search for better tilings of groups, each between what is around it; return False if all had them before."""
        share, is_new = self.maker.params.share_of_refining, False
        for at, one in enumerate(fused):
            operators, around = one.option.stack.operators, one.around
            key = self._key(operators, around, is_coarse=True)
            if key in self._fine or run.stop is not None:
                continue
            is_new = True
            self._fine.add(key)
            like, coarse = self._fronts[key]
            of_like = around.renamed(self._names(operators, like))
            seconds = share * run.seconds_left / (len(fused) - at)
            refining = run.within(seconds) if run.deadline.is_set else run
            if len(operators) == len(self.maker.question.network.operators):
                # Composing the group alone would be composing the schedule.
                fine = self._front_of(like, refining, of_like, is_coarse=False)
                self._fronts[key] = like, fine if fine.options else coarse
                continue
            fitting = (self._that_fit(each, refining, run, of_like) for each in coarse.options)
            self._fronts[key] = like, next(fitting, StackFront())
        return is_new

    def given(self, run: Run) -> GivenGroups | None:
        """Return the groups that the options name, in the best tilings found in time; None if none fits.

        Raises UsageError for layers or groups that the network lacks, and for a tile that is larger than every map.
        """
        question = self.maker.question
        given, ends = given_stacks_of(question.network, question.precision, question.accelerator, self.options)
        found: list[StackOption] = []
        left_alone = list(ends)
        for stack in given:
            is_single = len(stack.operators) == 1
            if stack.tiling is None or (is_single and self.options.tile is None):
                found.append(alone_in_dram(stack.operators[0]))
                continue
            counted = self._front_of(stack.operators, run, is_coarse=True).least(self._prices)
            fitting = None if counted is None else self._that_fit(counted, run, run).least(self._prices)
            if fitting is None:
                found += map(alone_in_dram, stack.operators)
                left_alone.append((stack.operators[0], stack.operators[-1]))
            else:
                found.append(fitting)
        if all(one.stack.tiling is None for one in found) and left_alone:
            return None
        return GivenGroups(*together(found), left_alone)

    def in_strips(self, operators: Operators, run: Run) -> StackOption | None:
        """Return operators as one group, in the best of the fewest strips of rows that fit; None if none does."""
        rows, _ = pixels_in_tiles(self.maker.question.network, operators)
        found = list[StackOption]()
        for height in dict.fromkeys(-(-rows // count) for count in range(1, rows + 1)):
            stack = ScheduledStack(operators, Tiling(1, height, OverlapMode.RECOMPUTE))
            if len(found) >= FEWEST_STRIPS or run.stop is not None:
                break
            if self.maker.has_time_for(self.maker.tile_operators_of(stack), times=2):
                options = (self.composed(stack, places, run) for places in self._inside(stack))
                found += [option for option in options if option is not None]
        return min(found, key=lambda option: self._prices.of(option.figures), default=None)

    def _that_fit(self, counted: StackOption, refining: Run, run: Run, around: Surroundings = IN_DRAM) -> StackFront:
        """Return the first option of a counted group that fits at about the counted price.

        Its tiling is refined before, within `refining`, and kept if that finds no better one in time. If the placements
        do not fit, or maps pass DRAM for lack of capacity, groups counted with less capacity follow, then those with
        all maps in the largest memory. A group that there is no time to compose twice, alone and with the others, is
        not tried. Groups are composed alone, with inputs and output in DRAM, so other prices are not compared.
        """
        operators, price = counted.stack.operators, self._prices.of(counted.figures)
        refined = self.counted(operators, refining, around).options
        better = [one for one in refined if self._prices.of(one.figures) <= price]
        smaller = (
            one
            for share in self.maker.params.reserved
            for one in self.counted(operators, refining, around, share).options
        )
        plain = (replace(counted, places=places) for places in self._inside(counted.stack))
        best: StackOption | None = None
        for one in chain(better, (counted,), smaller):
            if not self.maker.has_time_for(self.maker.tile_operators_of(one.stack), times=2):
                return StackFront((best or one,))
            if (found := self.composed(one.stack, one.places, run)) is None:
                continue
            if around != IN_DRAM:
                return StackFront((replace(found, figures=one.figures),))
            if best is None or self._prices.of(found.figures) < self._prices.of(best.figures):
                best = found
            dearer = self.maker.params.times_as_counted * self._prices.of(one.figures)
            if self._prices.of(found.figures) <= dearer:
                break
        for one in plain if best is None else ():
            if (found := self.composed(one.stack, one.places, run)) is not None:
                return StackFront((found,))
        return StackFront(() if best is None else (best,))

    @property
    def _prices(self) -> StackPrices:
        objective = self.maker.question.objective
        if self.alone is None:  # there are no totals to weigh energy against cycles
            return StackPrices(ScheduleObjective.ENERGY if objective is ScheduleObjective.EDP else objective)
        composition = self.alone.improver.best.composition
        return StackPrices(objective, composition.energy_fj, composition.cycles)

    def _far(self, alone: ScheduleAttempt) -> frozenset[str]:
        """Return the feature maps that `alone` streams."""
        network, views, places = self.maker.question.network, self.maker.question.views, alone.places
        running = [(at, network.operator[name]) for at, one in enumerate(alone.stacks) for name in one.operators]
        return frozenset(
            name
            for at, one in running
            for names, places_of in ((one.inputs, places.read), (one.outputs, places.written))
            for name in names
            if one.name not in views and (at, name) not in places_of
        )

    def _blocks(self, alone: ScheduleAttempt) -> Iterator[Operators]:
        """Yield the operators between consecutive positions that a single tensor crosses."""
        network = self.maker.question.network
        waiting: dict[str, int] = {}
        block: list[str] = []
        for name in (name for stack in alone.stacks for name in stack.operators):
            operator = network.operator[name]
            block.append(name)
            for tensor in dict.fromkeys(operator.inputs):
                if tensor in waiting:
                    waiting[tensor] -= 1
                    if not waiting[tensor]:
                        del waiting[tensor]
            for tensor in operator.outputs:
                if network.readers[tensor]:
                    waiting[tensor] = len(network.readers[tensor])
            if len(waiting) <= 1:
                yield tuple(block)
                block = []
        if block:
            yield tuple(block)

    def front_between(self, operators: Operators, around: Surroundings, run: Run) -> StackFront:
        """Return the front of operators as one group in these surroundings."""
        return self._front_of(operators, run, around, is_coarse=True)

    def _front_of(
        self, operators: Operators, run: Run, around: Surroundings = IN_DRAM, *, is_coarse: bool
    ) -> StackFront:
        """Return the front of operators as one group; groups with the same structure are costed once.

        If something is around the group, its known tilings are tried before others.
        """
        if not self._may_be_one(operators):
            return StackFront()
        key = self._key(operators, around, is_coarse=is_coarse)
        inside = key[1]
        if key in self._fronts:
            return self._front_like(operators, *self._fronts[key])
        known = tuple(self._tilings.get(inside, ()) if around != IN_DRAM and is_coarse else ())
        front = self.counted(operators, run, around, is_coarse=is_coarse, known=known)
        self._tilings.setdefault(inside, {}).update(
            {one.stack.tiling: None for one in front.options if one.stack.tiling}
        )
        if run.stop is None:
            self._fronts[key] = operators, front
        return front

    def _key(self, operators: Operators, around: Surroundings, *, is_coarse: bool) -> GroupKey:
        return is_coarse, self._structure(operators), around.named(self._tensors(operators))

    def counted(
        self,
        operators: Operators,
        run: Run,
        around: Surroundings = IN_DRAM,
        reserved: float = 0.0,
        *,
        is_coarse: bool = False,
        known: Sequence[Tiling] = (),
    ) -> StackFront:
        """Return the front of a group: a good tiling, counted by tile types; a fair one if it is coarse.

        The best of the `known` tilings is taken if one fits. A `reserved` share of every memory stays free.
        """
        question, prices = self.maker.question, self._prices
        run_of = self._layers_of(operators)
        if run_of is None:
            return StackFront()
        part, network = run_of.graph, run_of.network
        group, output = Stack(network.inputs, network.layers), network.layers[-1].output
        taken_bits = {
            one.memory.name: int(reserved * 8 * one.memory.capacity_bytes) for one in question.accelerator.addressed
        }
        homes = {one.name: around.homes[one.name] for one in network.inputs if one.name in around.homes}
        for memory, bits in around.taken_bits.items():
            taken_bits[memory] = taken_bits.get(memory, 0) + bits
        mapper = MapperInTime(self._layer_cost, run, self._mapped)
        counted: dict[Tiling, StackCost] = {}

        def price_of(tiling: Tiling) -> int | None:
            tiles = -(-output.rows // tiling.rows) * -(-output.columns // tiling.columns)
            if not self.maker.has_time_for(tiles * len(group.layers)):
                return None
            try:
                if tiling.channels is not None:
                    counted[tiling] = cost_in_slices(
                        part,
                        network,
                        question.accelerator,
                        tiling,
                        run_of.in_slices(tiling.channels),
                        mapper,
                        homes,
                        around.output_home,
                        taken_bits,
                        around.read_last,
                    )
                    return prices.of(demand_of(counted[tiling]))
                counted[tiling] = stack_cost(
                    group,
                    question.accelerator,
                    tiling,
                    mapper,
                    input_homes=homes,
                    output_home=around.output_home,
                    resident_bits=taken_bits,
                    read_last=around.read_last,
                )
            except (InputError, CostingStoppedError):
                return None
            return prices.of(demand_of(counted[tiling]))

        priced = ((price_of(one), one) for one in known)
        _, tiling = min((one for one in priced if one[0] is not None), default=(None, None), key=itemgetter(0))
        if tiling is None:
            most = max(1, int(self._largest_share(operators, around) * output.rows * output.columns))
            tiling = TilingList.of(output, self.options).descend(most, price_of, is_coarse=is_coarse)
            shape = part.tensor[output.name].shape or ()
            if self.options.tile is None and output.layout is Layout.IMAGE and len(shape) > CHANNELS:
                price = None if tiling is None else prices.of(demand_of(counted[tiling]))
                tiling = best_slices(output, shape[CHANNELS], price_of, (price, tiling), is_coarse=is_coarse)
        if tiling is None:
            return StackFront()
        stack, choice = ScheduledStack(operators, tiling), StackChoice(LayerSpan(0, len(network.layers)), tiling)
        places = places_of_strategy(part, (stack,), network, ((choice, counted[tiling]),))
        written = {key: home for key, home in places.written.items() if key[1] not in self.written[operators[-1]]}
        if around.output_home != DRAM:
            written |= {(0, name): around.output_home for name in self.written[operators[-1]]}
        return StackFront((StackOption(stack, replace(places, written=written), demand_of(counted[tiling])),))

    def _layers_of(self, operators: Operators) -> _Layers | None:
        """Return a run of operators as a separate network; None if no tiling of it runs, or a view would leave it."""
        if operators not in self._layers:
            question = self.maker.question
            part = part_of_network(question.network, operators)
            self._layers[operators] = None
            with suppress(InputError):
                found = _Layers(part, fusable_of(part, question.precision))
                if found.network.layers[-1].name == operators[-1]:
                    self._layers[operators] = found
        return self._layers[operators]

    def _layer_cost(self, problem: LayerProblem) -> LayerCost | None:
        """Return the cost of a layer with the mapping that a schedule would use at the same free capacities."""
        nest = NestPlace(0, problem.layer, problem.homes, problem.weight_is_an_input)
        found = self.maker.mappings.best(nest, problem.room_bytes)
        return None if found is None else recent_layer_cost(problem, found.mapping)

    def _structure(self, operators: Operators) -> Structure:
        """Return the description of a group in which tensors have numbers in place of names."""
        network, views, number = self.maker.question.network, self.maker.question.views, dict[str, int]()
        every: list[object] = []
        for name in operators:
            one = network.operator[name]
            tensors = [network.tensor[each] for each in (*one.inputs, *one.parameters, *one.outputs)]
            places = [number.setdefault(each.name, len(number)) for each in tensors]
            kinds = [(each.shape, each.bits, each.size_bytes, each.role is Role.PARAMETER) for each in tensors]
            every += [one.kind, sorted(one.attributes.items()), one.in_place, one.workspace_bytes, one.stated]
            every += [name in views, len(one.inputs), len(one.outputs), places, kinds]
        return repr(every)

    def _names(self, operators: Operators, like: Operators) -> Mapping[str, str]:
        """Map the tensors of a group to those of a group with the same structure."""
        return dict(zip(self._tensors(operators), self._tensors(like), strict=True))

    def _front_like(self, operators: Operators, like: Operators, known: StackFront) -> StackFront:
        """Return the front of a group from that of a group with the same structure."""
        names = self._names(like, operators)
        return StackFront(
            tuple(
                StackOption(ScheduledStack(operators, one.stack.tiling), one.places.renamed(names), one.figures)
                for one in known.options
            )
        )

    def _tensors(self, operators: Operators) -> list[str]:
        """Return the tensors of a group in the order in which its operators name them."""
        every = (self.maker.question.network.operator[name] for name in operators)
        return list(dict.fromkeys(name for one in every for name in (*one.inputs, *one.parameters, *one.outputs)))

    @without_collecting()
    def composed(self, stack: ScheduledStack, places: Places, run: Run) -> StackOption | None:
        """Return the group composed as a separate network; None if it is illegal, or has no mappings or offsets.

        Where the loop nest of an operator fits in no free bytes, its maps move to the next larger memory.
        """
        maker, network = self.maker, self.maker.question.network
        try:
            composer, _ = maker.of_part(part_of_network(network, stack.operators), run).composer((stack,))
        except ScheduleError:
            return None
        found, at = None, places
        while found is None and run.stop is None:
            try:
                found = composer.composed(at)
            except NoMappingError as error:
                for name in error.operators_of(network):
                    farther = at.farther(0, network.operator[name], maker.question.accelerator)
                    if farther is None:
                        return None
                    at = farther
        if found is None:
            return None
        try:
            found = composer.addressed(found)
        except NoMappingError:
            return None
        return StackOption(stack, at, StackDemand({}, found.traffic_bytes, found.cycles, found.energy_fj))

    def _inside(self, stack: ScheduledStack) -> Iterator[Places]:
        """Yield placements that keep all feature maps of a group on chip except its output.

        Matrices that every tile reads whole or slice by slice, as the right factor of a product, stay there or are
        streamed by each tile.
        """
        network, memory = self.maker.question.network, self.memory
        if memory is None:
            yield Places()
            return
        written = places_inside(network, stack.operators, memory).written
        read = {
            (0, name): memory
            for operator in stack.operators
            for name in network.operator[operator].inputs
            if network.tensor[name].role is not Role.PARAMETER
        }
        yield Places(read, written, written)
        operators = [network.operator[name] for name in stack.operators]
        right = {(0, one.inputs[1]) for one in operators if multiplies_matrices(network, one)}
        right |= {(0, one.inputs[0]) for one in operators if one.kind == "Slice" and KEY_SLICE in one.attributes}
        right -= written.keys()
        if right:
            yield Places({key: home for key, home in read.items() if key not in right}, written, written)

    def _may_be_one(self, operators: Operators) -> bool:
        """Return True if only the last operator's output leaves the group."""
        network, inside = self.maker.question.network, set(operators)
        outputs = [name for operator in operators[:-1] for name in network.operator[operator].outputs]
        return all(
            network.tensor[name].role is not Role.OUTPUT
            and network.readers[name]
            and all(reader.name in inside for reader in network.readers[name])
            for name in outputs
        )

    def _largest_share(self, operators: Operators, around: Surroundings) -> float:
        """Return the share of each operator's feature maps that fits on chip beside what is around the group."""
        network = self.maker.question.network
        last = network.operator[operators[-1]].outputs[0]
        outside = {*around.homes, *([last] if around.output_home != DRAM else [])}
        free = max(
            one.memory.capacity_bytes
            - around.taken_bits.get(one.memory.name, 0) // 8
            - sum(network.tensor[name].size_bytes for name, home in around.homes.items() if home == one.memory.name)
            - (network.tensor[last].size_bytes if around.output_home == one.memory.name else 0)
            for one in self.maker.question.accelerator.addressed
        )
        needs = (
            sum(network.tensor[name].size_bytes for name in {*operator.inputs, *operator.outputs} - outside)
            for operator in map(network.operator.__getitem__, operators)
        )
        return max(0.0, min(1.0, free / max(1, *needs)))


@dataclass(slots=True)
class _StepsBetween:
    """Fused groups in place of operators that run one after the other, each between tensors on chip.

    Operators may be a group if they are few, or among the `candidates`.
    """

    grouper: Grouper
    alone: ScheduleAttempt
    candidates: Collection[Operators]
    run: Run
    _order: tuple[str, ...] = field(init=False)
    _graph: Graph = field(init=False)
    """The operators as they run alone: readers of a concatenation that is not made read its parts."""
    _begins: dict[int, list[Operators]] = field(init=False)
    """Groups by the position of their first operator."""
    _last_read: dict[str, int] = field(default_factory=dict, init=False)
    """Position of the last operator that reads a tensor."""

    def __post_init__(self) -> None:
        self._order = tuple(name for stack in self.alone.stacks for name in stack.operators)
        self._graph = self.alone.tiles.graph
        for at, name in enumerate(self._order):
            if name in self._graph.operator:
                self._last_read.update(dict.fromkeys(self._graph.operator[name].reads, at))
        self._begins = {at: list(self._groups(at)) for at in range(len(self._order))}

    def _groups(self, at: int) -> Iterator[Operators]:
        for size in range(1, len(self._order) - at + 1):
            operators = self._order[at : at + size]
            if size <= MOST_NEIGHBOURS or operators in self.candidates:
                yield operators

    def after(self, at: int, on_chip: OnChip) -> Iterator[FusedStep]:
        """Yield the groups that begin with the operator at this position, with their output in DRAM and on chip."""
        network = self.grouper.maker.question.network
        for operators in self._begins[at]:
            if self.run.stop is not None:
                return
            end = at + len(operators)
            around, kept = self._around(operators, end, on_chip)
            outputs = self.grouper.written[operators[-1]]
            are_read = all(self._last_read.get(name, -1) >= end for name in outputs)
            are_inner = all(network.tensor[name].role is not Role.OUTPUT for name in outputs)
            homes = [DRAM, self.grouper.memory] if are_read and are_inner else [DRAM]
            for home in filter(None, homes):
                around = replace(around, output_home=home)
                front = self.grouper.front_between(operators, around, self.run)
                for option in front.options:
                    is_in_bands = self._writes_bands(option.stack)
                    written = () if home == DRAM else [(name, True, (home,), is_in_bands) for name in outputs]
                    yield FusedStep(end, kept.union(written), option, around)

    def _writes_bands(self, stack: ScheduledStack) -> bool:
        """Return True if the group has several tiles."""
        tiling = stack.tiling
        if tiling is None or tiling.channels is not None:
            return tiling is not None
        rows, columns = pixels_in_tiles(self.grouper.maker.question.network, stack.operators)
        return tiling.rows < rows or tiling.columns < columns

    def _around(self, operators: Operators, end: int, on_chip: OnChip) -> tuple[Surroundings, OnChip]:
        """Return what is around a group, and the residents that stay behind it: those that are read later."""
        graph, network = self._graph, self.grouper.maker.question.network
        read = {name for one in operators for name in network.operator[one].inputs}
        homes: dict[str, str] = {}
        taken: dict[str, int] = {}
        for tensor, _, held, _ in on_chip:
            if tensor in read and graph.tensor[tensor].role is not Role.PARAMETER:
                homes[tensor] = held[-1]
            else:
                for memory in held:
                    taken[memory] = taken.get(memory, 0) + 8 * graph.tensor[tensor].size_bytes
        kept = frozenset(one for one in on_chip if self._last_read.get(one[0], -1) >= end)
        read_last = frozenset(homes.keys() - {one[0] for one in kept})
        return Surroundings(homes, DRAM, taken, read_last), kept


def demand_of(cost: StackCost) -> StackDemand:
    """Return the figures of a counted group."""
    energy_fj = round(FEMTO_PER_PICO * cost.sums.energy_pj)
    return StackDemand({}, dram_bits_of(cost.sums) // 8, round(cost.sums.cycles), energy_fj)


def alone_in_dram(operator: str) -> StackOption:
    """Return an operator as a group that runs whole, with operands in DRAM."""
    return StackOption(ScheduledStack((operator,)), Places(), StackDemand({}, 0, 0, 0))


def together(options: Sequence[StackOption]) -> tuple[Sequence[ScheduledStack], Places]:
    """Return the groups in order, and their placements."""
    places = Places()
    for number, one in enumerate(options):
        places = places.with_all(one.places.renumbered({0: number}))
    return tuple(one.stack for one in options), places
