"""Fused groups by the schedule's cost: blocks of the network are merged, and a shortest path chooses the cuts.

A block lies between two positions of the order that a single tensor crosses. Candidates are blocks, and runs of blocks
that grow by merging neighbours. Operators of a block that cannot be one group are merged in the same way. Each
candidate is composed alone in a few tilings, with its inputs and its output in DRAM. The cheapest cuts of the network
are then chosen among all candidates and single operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.fusable import pixels_in_tiles
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import multiplies_matrices
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
from onchip.scheduling.program.places import Places, StackMap
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import part_of_network

Structure: TypeAlias = str
"""Description of a group without names: groups with the same one have the same cost."""


@dataclass(slots=True)
class Grouper:
    """The choice of fused groups, starting from the schedule `alone`, which runs operator by operator."""

    maker: AttemptMaker
    alone: ScheduleAttempt
    fronts: dict[Operators, StackFront] = field(default_factory=dict, init=False)
    _known: dict[Structure, StackFront] = field(default_factory=dict, init=False)
    _memory: str | None = field(init=False)
    """The largest memory that holds feature maps, in which groups keep theirs."""
    _written: Mapping[str, Sequence[str]] = field(init=False)
    """Map from each operator to its outputs; a concatenation that is not made has those that it joins."""
    _streamed: frozenset[str] = field(init=False)
    """Feature maps that `alone` reads from DRAM or writes there."""

    def __post_init__(self) -> None:
        network, views, places = self.maker.question.network, self.maker.question.views, self.alone.places
        self._written = {one.name: one.inputs if one.name in views else one.outputs for one in network.operators}
        running = [(at, network.operator[name]) for at, one in enumerate(self.alone.stacks) for name in one.operators]
        self._streamed = frozenset(
            name
            for at, one in running
            for names, places_of in ((one.inputs, places.read), (one.outputs, places.written))
            for name in names
            if (at, name) not in places_of and one.name not in views
        )
        levels = [one for one in self.maker.question.accelerator.addressed if _holds_maps(one.memory.holds)]
        self._memory = max(levels, key=lambda one: one.memory.capacity_bytes).memory.name if levels else None
        for stack, one in zip(self.alone.stacks, self.alone.improver.best.composition.composed, strict=True):
            figures = StackDemand({}, one.traffic_bytes, one.cycles, one.energy_fj)
            self.fronts[stack.operators] = StackFront((StackOption(stack, Places(), figures),))

    def chosen(self, run: Run) -> tuple[Sequence[ScheduledStack], Places] | None:
        """Return the groups of the cheapest cuts found in time and their placements, or None if no group is chosen."""
        if self._memory is None:
            return None
        blocks = list(self._blocks())
        for block in blocks:
            self._look(block, run)
        self._grow(blocks, run)
        for block in blocks:
            if block not in self.fronts:
                self._grow([(name,) for name in block], run)
        prices = self._prices
        stacks = cheapest_cuts(self.alone.stacks, self.fronts, prices)
        if all(len(one.stack.operators) == 1 for one in stacks):
            return None
        places = Places()
        for number, one in enumerate(stacks):
            places = places.with_all(one.places.renumbered({0: number}))
        return tuple(one.stack for one in stacks), places

    def _grow(self, segments: list[Operators], run: Run) -> None:
        """Merge neighbouring segments as long as that gains something."""
        while len(segments) > 1 and run.stop is None:
            found = self._merged(segments, run)
            if found == segments:
                break
            segments = found

    @property
    def _prices(self) -> StackPrices:
        composition = self.alone.improver.best.composition
        return StackPrices(self.maker.question.objective, composition.energy_fj, composition.cycles)

    def _merged(self, segments: Sequence[Operators], run: Run) -> list[Operators]:
        """Merge pairs of neighbouring segments with positive gain, greatest first, each segment at most once."""
        gains: list[tuple[int, int]] = []
        for at in range(len(segments) - 1):
            if run.stop is not None:
                break
            together = (*segments[at], *segments[at + 1])
            self._look(together, run)
            gains.append((self._cost(segments[at]) + self._cost(segments[at + 1]) - self._cost(together), at))
        taken: set[int] = set()
        for gain, at in sorted(gains, reverse=True):
            if gain > 0 and not {at - 1, at, at + 1} & taken:
                taken.add(at)
        found: list[Operators] = []
        at = 0
        while at < len(segments):
            found.append((*segments[at], *segments[at + 1]) if at in taken else segments[at])
            at += 2 if at in taken else 1
        return found

    def _cost(self, operators: Operators) -> int:
        """Return the price of the cheapest cuts of consecutive operators."""
        prices = self._prices
        stacks = [ScheduledStack((name,)) for name in operators]
        return sum(prices.of(one.figures) for one in cheapest_cuts(stacks, self.fronts, prices))

    def _blocks(self) -> Iterator[Operators]:
        """Yield the operators between consecutive positions that a single tensor crosses."""
        network = self.maker.question.network
        order = [name for stack in self.alone.stacks for name in stack.operators]
        waiting: dict[str, int] = {}
        block: list[str] = []
        for name in order:
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

    def _look(self, operators: Operators, run: Run) -> None:
        """Find the front of operators as one group.

        A group of which all inner maps are on chip anyway is left out: it can save little.
        """
        if len(operators) < 2 or operators in self.fronts or not self._may_be_one(operators):
            return
        if not self._streamed.intersection(name for one in operators[:-1] for name in self._written[one]):
            return
        structure = self._structure(operators)
        if structure in self._known:
            front = self._front_like(operators, self._known[structure])
        else:
            front = self._composed(operators, run)
            if run.stop is None:
                self._known[structure] = front
        if front.options:
            self.fronts[operators] = front

    def _composed(self, operators: Operators, run: Run) -> StackFront:
        """Return the front of a group, in ever smaller tiles until the price stops falling."""
        front, best = StackFront(), None
        try:
            fusable_of(part_of_network(self.maker.question.network, operators))
        except InputError:  # no tiling of these operators runs
            return front
        prices = self._prices
        for tiling in self._tilings(operators):
            if run.stop is not None:
                break
            stack = ScheduledStack(operators, tiling)
            found = [one for places in self._inside(stack) if (one := self._alone(stack, places, run)) is not None]
            for one in found:
                front = front.with_option(one)
            price = min((prices.of(one.figures) for one in found), default=None)
            if price is not None and best is not None and price >= best:
                break
            best = best if price is None else price
        return front

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

    def _front_like(self, operators: Operators, known: StackFront) -> StackFront:
        """Return the front of a group from that of a group with the same structure."""
        options = list[StackOption]()
        for option in known.options:
            stack = ScheduledStack(operators, option.stack.tiling)
            like = zip(self._inside(option.stack), self._inside(stack), strict=True)
            options += [StackOption(stack, own, option.figures) for one, own in like if one == option.places]
        return StackFront(tuple(options))

    def _alone(self, stack: ScheduledStack, places: Places, run: Run) -> StackOption | None:
        """Return the group's cost as a separate network; None if it is illegal or has no mappings."""
        maker = self.maker
        part = replace(maker.question, network=part_of_network(maker.question.network, stack.operators), lower_bound=0)
        try:
            found = AttemptMaker(part, maker.mappings, maker.mapper, run).without_offsets((stack,), places)
        except (NoMappingError, ScheduleError):
            return None
        return StackOption(stack, places, StackDemand({}, found.traffic_bytes, found.cycles, found.energy_fj))

    def _inside(self, stack: ScheduledStack) -> Iterator[Places]:
        """Yield placements that keep all feature maps of a group on chip except its output.

        Matrices that every tile reads whole, as the right factor of a product, stay there or are streamed by each tile.
        """
        network: Graph = self.maker.question.network
        read: dict[StackMap, str] = {}
        written: dict[StackMap, str] = {}
        waiting: dict[StackMap, str | None] = {}
        inside = {name for operator in stack.operators[:-1] for name in network.operator[operator].outputs}
        for operator in stack.operators:
            for name in network.operator[operator].inputs:
                if network.tensor[name].role is not Role.PARAMETER and self._memory is not None:
                    read[0, name] = self._memory
        for name in inside:
            if self._memory is not None:
                written[0, name] = waiting[0, name] = self._memory
        yield Places(read, written, waiting)
        products = (one for name in stack.operators if multiplies_matrices(network, one := network.operator[name]))
        right = {one.inputs[1] for one in products} - inside
        if right:
            yield Places({key: home for key, home in read.items() if key[1] not in right}, written, waiting)

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

    def _tilings(self, operators: Operators) -> Iterator[Tiling]:
        """Yield tilings, the largest first: strips of rows, then parts of one row.

        The first is the largest whose share of every operator's maps fits on chip.
        """
        rows, columns = pixels_in_tiles(self.maker.question.network, operators)
        most = self._largest_share(operators) * rows * columns
        width, height, strips = columns, rows, 1
        while True:
            if width * height <= most or width * height == 1:
                yield Tiling(width, height, OverlapMode.FULLY_CACHED).within(columns, rows)
            if width * height == 1:
                return
            if height > 1 and columns == 1:
                strips += max(1, strips // 2)
                height = -(-rows // strips)
            elif height > 1:
                height = -(-height // 2)
            else:
                width = -(-width // 2)

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
