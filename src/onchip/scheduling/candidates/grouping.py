"""Fused groups by the schedule's cost: blocks of the network are merged, and a shortest path chooses the cuts.

A block lies between two positions of the order that a single tensor crosses. Candidates are blocks, and runs of blocks
that grow by merging neighbours. Operators of a block that cannot be one group are merged in the same way. Each
candidate is costed alone, with its inputs and its output in DRAM: its tiles are counted by type, in the tiling to which
a descent leads. The cheapest cuts of the network are then chosen among all candidates and single operators, and the
groups between them are composed tile by tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import Tiling
from onchip.arch.memory import DRAM, Operand
from onchip.errors import InputError
from onchip.ir.tensor import Role
from onchip.model.group.cost import StackCost, stack_cost
from onchip.model.group.slices import cost_in_slices
from onchip.model.layer.cost import LayerCost
from onchip.model.program.compute_cost import FEMTOJOULES_PER_PICOJOULE, recent_layer_cost
from onchip.ops.fusable import Stack
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import multiplies_matrices
from onchip.scheduling.candidates.given import given_stacks_of
from onchip.scheduling.candidates.growth import Growth
from onchip.scheduling.candidates.tile_sizes import TilingList, best_slices
from onchip.scheduling.fronts.costs import dram_bits_of
from onchip.scheduling.fronts.mappers import CostingStoppedError, MapperInTime
from onchip.scheduling.fronts.stack_front import (
    Operators,
    StackDemand,
    StackFront,
    StackOption,
    StackPrices,
    cheapest_cuts,
)
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.from_strategy import places_of_strategy
from onchip.scheduling.program.places import Places, memory_for_maps, places_inside
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice
from onchip.transform.groups.tile_graph import part_of_network
from onchip.without_collecting import without_collecting

Structure: TypeAlias = str
"""Description of a group without names: groups with the same one have the same cost."""


@dataclass(frozen=True, slots=True)
class GivenGroups:
    """The groups that options name, with their placements; `left_alone` has the ends of those that do not fit."""

    stacks: Sequence[ScheduledStack]
    places: Places
    left_alone: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The memories on chip of a group's inputs and output, and the bits that other tensors take while it runs."""

    homes: Mapping[str, str] = field(default_factory=dict)
    output_home: str = DRAM
    taken_bits: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Grouper:
    """The choice of fused groups; `options` fix their tile or their mode.

    It starts from the schedule `alone`, which runs operator by operator. Without one, groups have to be given.
    """

    maker: AttemptMaker
    alone: ScheduleAttempt | None
    options: FusionOptions
    knows_surroundings: bool = False
    """True to cost groups between the maps that `alone` keeps on chip, instead of from DRAM to DRAM."""
    _fronts: dict[tuple[bool, Structure], tuple[Operators, StackFront]] = field(default_factory=dict, init=False)
    _mapped: dict[LayerProblem, LayerCost | None] = field(default_factory=dict, init=False)
    _memory: str | None = field(init=False)
    """The largest memory that holds feature maps, in which groups keep theirs."""

    def __post_init__(self) -> None:
        self._memory = memory_for_maps(self.maker.question.accelerator)

    def chosen(self, run: Run) -> Iterator[tuple[Sequence[ScheduledStack], Places]]:
        """Yield the groups of the cheapest cuts and their placements: coarse ones at once, then better ones in time.

        Yields nothing if no group is chosen.
        """
        alone = self.alone
        if self._memory is None or alone is None:
            return
        params = self.maker.params
        counting = run.within(params.share_of_counting * run.seconds_left) if run.deadline.is_set else run
        far, written = self._far(alone), self._written

        def front_of(operators: Operators, *, is_coarse: bool) -> StackFront | None:
            # A group can save little if all its inner maps are near the MACs anyway.
            is_worth_it = far.intersection(name for one in operators[:-1] for name in written[one])
            return self._front_of(operators, counting, is_coarse=is_coarse) if is_worth_it else None

        growth = Growth(self._prices, counting)
        for at, (stack, one) in enumerate(zip(alone.stacks, alone.improver.best.composition.composed, strict=True)):
            figures = StackDemand({}, one.traffic_bytes, one.cycles, one.energy_fj)
            own = alone.places.renumbered({at: 0})
            growth.fronts[stack.operators] = StackFront((StackOption(stack, own, figures),))
        blocks, begun = list(self._blocks(alone)), run.seconds
        growth.grow(blocks, partial(front_of, is_coarse=True))
        coarse = cheapest_cuts(alone.stacks, growth.fronts, self._prices)
        if run.deadline.is_set and any(len(one.stack.operators) > 1 for one in coarse):
            yield _together(coarse)
        if not run.deadline.is_set or counting.seconds_left > params.times_as_long * (run.seconds - begun):
            growth.grow(blocks, partial(front_of, is_coarse=False))
        stacks = self._cheapest_that_fit(alone.stacks, growth.fronts, run)
        if any(len(one.stack.operators) > 1 for one in stacks):
            yield _together(stacks)

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
                found.append(_alone_in_dram(stack.operators[0]))
                continue
            counted = self._front_of(stack.operators, run, is_coarse=True).least(self._prices)
            fitting = None if counted is None else self._that_fit(counted, run, run).least(self._prices)
            if fitting is None:
                found += map(_alone_in_dram, stack.operators)
                left_alone.append((stack.operators[0], stack.operators[-1]))
            else:
                found.append(fitting)
        if all(one.stack.tiling is None for one in found) and left_alone:
            return None
        return GivenGroups(*_together(found), left_alone)

    def _cheapest_that_fit(
        self, alone: Sequence[ScheduledStack], fronts: dict[Operators, StackFront], run: Run
    ) -> Sequence[StackOption]:
        """Return the groups of the cheapest cuts; each has mappings and offsets when its tiles are composed, in time.

        Counted tiles have the capacity of a memory in bytes. A group that does not fit with offsets is left out, and
        cut again.
        """
        composed: set[Operators] = set()
        while True:
            stacks = cheapest_cuts(alone, fronts, self._prices)
            new = [one for one in stacks if len(one.stack.operators) > 1 and one.stack.operators not in composed]
            if not new or run.stop is not None:
                return stacks
            for at, one in enumerate(new):
                share = self.maker.params.share_of_refining * run.seconds_left / (len(new) - at)
                refining = run.within(share) if run.deadline.is_set else run
                fronts[one.stack.operators] = self._that_fit(one, refining, run)
                composed.add(one.stack.operators)

    def _that_fit(self, counted: StackOption, refining: Run, run: Run) -> StackFront:
        """Return the first option of a counted group that fits at about the counted price.

        Its tiling is refined before, within `refining`, and kept if that finds no better one in time. If the placements
        do not fit, or maps pass DRAM for lack of capacity, groups counted with less capacity follow, then those with
        all maps in the largest memory. A group that there is no time to compose twice, alone and with the others, is
        not tried.
        """
        operators, price = counted.stack.operators, self._prices.of(counted.figures)
        refined = self.counted(operators, refining).options
        better = [one for one in refined if self._prices.of(one.figures) <= price]
        smaller = (
            one for share in self.maker.params.reserved for one in self.counted(operators, refining, share).options
        )
        plain = (replace(counted, places=places) for places in self._inside(counted.stack))
        # The group is composed alone, with its inputs and its output in DRAM.
        is_alone = self._around(operators) == Surroundings()
        best: StackOption | None = None
        for one in chain(better, (counted,), smaller):
            if not self.maker.has_time_for(self.maker.tile_operators_of(one.stack), times=2):
                return StackFront((best or one,))
            if (found := self.composed(one.stack, one.places, run)) is None:
                continue
            if not is_alone:
                return StackFront((replace(found, figures=one.figures),))
            if best is None or self._prices.of(found.figures) < self._prices.of(best.figures):
                best = found
            dearer = self.maker.params.times_as_counted * self._prices.of(one.figures)
            if self._prices.of(found.figures) <= dearer:
                break
        for one in plain if best is None else ():
            if (found := self.composed(one.stack, one.places, run)) is not None:
                return StackFront((found if is_alone else replace(found, figures=one.figures),))
        return StackFront(() if best is None else (best,))

    @property
    def _prices(self) -> StackPrices:
        objective = self.maker.question.objective
        if self.alone is None:  # there are no totals to weigh energy against cycles
            return StackPrices(ScheduleObjective.ENERGY if objective is ScheduleObjective.EDP else objective)
        composition = self.alone.improver.best.composition
        return StackPrices(objective, composition.energy_fj, composition.cycles)

    @property
    def _written(self) -> Mapping[str, Sequence[str]]:
        """Map each operator to its outputs; a concatenation that is not made has those that it joins."""
        question = self.maker.question
        return {
            one.name: one.inputs if one.name in question.views else one.outputs for one in question.network.operators
        }

    def _far(self, alone: ScheduleAttempt) -> frozenset[str]:
        """Return the feature maps that `alone` streams, or has elsewhere than in the memory nearest the MACs."""
        network, views, places = self.maker.question.network, self.maker.question.views, alone.places
        levels = (one.memory for one in self.maker.question.accelerator.addressed)
        nearest = next((one.name for one in levels if _holds_maps(one.holds)), None)
        running = [(at, network.operator[name]) for at, one in enumerate(alone.stacks) for name in one.operators]
        return frozenset(
            name
            for at, one in running
            for names, places_of in ((one.inputs, places.read), (one.outputs, places.written))
            for name in names
            if one.name not in views
            and ((at, name) not in places_of or (self.knows_surroundings and places_of[at, name] != nearest))
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

    def _front_of(self, operators: Operators, run: Run, *, is_coarse: bool) -> StackFront:
        """Return the front of operators as one group; groups with the same structure are costed once."""
        if not self._may_be_one(operators):
            return StackFront()
        around = self._around(operators)
        structure = is_coarse, self._structure(operators, around)
        if structure in self._fronts:
            return self._front_like(operators, *self._fronts[structure])
        front = self.counted(operators, run, is_coarse=is_coarse)
        if run.stop is None:
            self._fronts[structure] = operators, front
        return front

    def counted(self, operators: Operators, run: Run, reserved: float = 0.0, *, is_coarse: bool = False) -> StackFront:
        """Return the front of a group: a good tiling, counted by tile types; a fair one if it is coarse.

        A `reserved` share of every memory stays free.
        """
        question, prices = self.maker.question, self._prices
        part = part_of_network(question.network, operators)
        try:
            network = fusable_of(part, question.precision)
        except InputError:  # no tiling of these operators runs
            return StackFront()
        group, output = Stack(network.inputs, network.layers), network.layers[-1].output
        taken_bits = {
            one.memory.name: int(reserved * 8 * one.memory.capacity_bytes) for one in question.accelerator.addressed
        }
        around = self._around(operators)
        homes = {one.name: around.homes[one.name] for one in network.inputs if one.name in around.homes}
        for memory, bits in around.taken_bits.items():
            taken_bits[memory] = taken_bits.get(memory, 0) + bits
        mapper = MapperInTime(self._layer_cost, run, self._mapped)
        counted: dict[Tiling, StackCost] = {}

        def price_of(tiling: Tiling) -> int | None:
            try:
                if tiling.channels is not None:
                    counted[tiling] = cost_in_slices(
                        part, network, question.accelerator, tiling, mapper, homes, around.output_home, taken_bits
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
                )
            except (InputError, CostingStoppedError):
                return None
            is_quick = self.maker.has_time_for(counted[tiling].tiles * len(group.layers))
            return prices.of(demand_of(counted[tiling])) if is_quick else None

        most = max(1, int(self._largest_share(operators) * output.rows * output.columns))
        tiling = TilingList.of(output, self.options).descend(most, price_of, is_coarse=is_coarse)
        if self.options.tile is None:
            price = None if tiling is None else prices.of(demand_of(counted[tiling]))
            tiling = best_slices(part, output, price_of, (price, tiling), is_coarse=is_coarse)
        if tiling is None:
            return StackFront()
        stack, choice = ScheduledStack(operators, tiling), StackChoice(LayerSpan(0, len(network.layers)), tiling)
        places = places_of_strategy(part, (stack,), network, ((choice, counted[tiling]),))
        return StackFront((StackOption(stack, places, demand_of(counted[tiling])),))

    def _layer_cost(self, problem: LayerProblem) -> LayerCost | None:
        """Return the cost of a layer with the mapping that a schedule would use at the same free capacities."""
        nest = NestPlace(0, problem.layer, problem.homes, problem.weight_is_an_input)
        found = self.maker.mappings.best(nest, problem.room_bytes)
        return None if found is None else recent_layer_cost(problem, found.mapping)

    def _structure(self, operators: Operators, around: Surroundings) -> Structure:
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
        homes = sorted((number.get(name, -1), memory) for name, memory in around.homes.items())
        return repr((every, homes, around.output_home, sorted(around.taken_bits.items())))

    def _around(self, operators: Operators) -> Surroundings:
        """Return what `alone` keeps on chip around operators that run one after the other."""
        alone, network = self.alone, self.maker.question.network
        if alone is None or not self.knows_surroundings:
            return Surroundings()
        number = {name: at for at, stack in enumerate(alone.stacks) for name in stack.operators}
        composed = alone.improver.best.composition.composed
        first, last = number[operators[0]], number[operators[-1]]
        before = composed[first - 1].movements.after if first else frozenset()
        read = {name for one in operators for name in network.operator[one].inputs}
        joined = [one for one in network.operators if one.name in self.maker.question.views and one.outputs[0] in read]
        read.update(name for one in joined for name in one.inputs)
        homes: dict[str, str] = {}
        taken: dict[str, int] = {}
        for tensor, _, held in before:
            if tensor in read and network.tensor[tensor].role is not Role.PARAMETER:
                homes[tensor] = held[-1]
            else:
                for memory in held:
                    taken[memory] = taken.get(memory, 0) + 8 * network.tensor[tensor].size_bytes
        output = network.operator[operators[-1]].outputs[0]
        after = {tensor: held for tensor, _, held in composed[last].movements.after}
        return Surroundings(homes, after[output][-1] if output in after else DRAM, taken)

    def _front_like(self, operators: Operators, like: Operators, known: StackFront) -> StackFront:
        """Return the front of a group from that of a group with the same structure."""
        names = dict(zip(self._tensors(like), self._tensors(operators), strict=True))
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

        Matrices that every tile reads whole, as the right factor of a product, stay there or are streamed by each tile.
        """
        network, memory = self.maker.question.network, self._memory
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
        products = (one for name in stack.operators if multiplies_matrices(network, one := network.operator[name]))
        right = {(0, one.inputs[1]) for one in products} - written.keys()
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

    def _largest_share(self, operators: Operators) -> float:
        """Return the share of each operator's feature maps that fits on chip together."""
        network = self.maker.question.network
        capacity = max(one.memory.capacity_bytes for one in self.maker.question.accelerator.addressed)
        needs = (
            sum(network.tensor[name].size_bytes for name in (*operator.inputs, *operator.outputs))
            for operator in map(network.operator.__getitem__, operators)
        )
        return min(1.0, capacity / max(1, *needs))


def _holds_maps(holds: Sequence[Operand]) -> bool:
    return {Operand.INPUT, Operand.OUTPUT} <= set(holds)


def demand_of(cost: StackCost) -> StackDemand:
    """Return the figures of a counted group."""
    energy_fj = round(FEMTOJOULES_PER_PICOJOULE * cost.sums.energy_pj)
    return StackDemand({}, dram_bits_of(cost.sums) // 8, round(cost.sums.cycles), energy_fj)


def _alone_in_dram(operator: str) -> StackOption:
    return StackOption(ScheduledStack((operator,)), Places(), StackDemand({}, 0, 0, 0))


def _together(options: Sequence[StackOption]) -> tuple[Sequence[ScheduledStack], Places]:
    """Return the groups in order, and their placements."""
    places = Places()
    for number, one in enumerate(options):
        places = places.with_all(one.places.renumbered({0: number}))
    return tuple(one.stack for one in options), places
