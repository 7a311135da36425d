"""Residencies of all tensors at once, and fused groups with them: a shortest path with the tensors on chip as state.

A label is a set of residents between two groups, with the cheapest way to it that was found. The groups that follow
depend on the residents alone, so of labels with equal residents only the cheapest is kept. A step of the way is a group
of the schedule, or a fused group in place of several. Capacity is counted in bytes. The limits on labels and on choices
of a group make the search inexact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod
from typing import Final, TypeAlias

from onchip.answer.schedule import ScheduledStack
from onchip.arch.memory import Operand
from onchip.model.program.compute_cost import MemoryRates, dram_cycles
from onchip.scheduling.fronts.stack_front import StackDemand, StackOption, StackPrices, Surroundings
from onchip.scheduling.program.composition import ComposedStack, Composer, NoMappingError
from onchip.scheduling.program.movements import OnChip
from onchip.scheduling.program.places import Places, StackPlaces
from onchip.scheduling.program.runs import base_of
from onchip.search.budget.limits import Run

Price: TypeAlias = tuple[int, int, int]
"""Price by the objective, energy in fJ, and traffic in bytes."""
MOST_CHOICES: Final = 48
"""Places of a group up to which all are tried; beyond that, those that place at most one tensor otherwise."""
MOST_LEAVING: Final = 3
"""Tensors up to which each subset may leave behind a group; of more, those that are read last leave first."""


@dataclass(frozen=True, slots=True)
class FusedStep:
    """A fused group in place of all stacks up to number `end`; behind it `on_chip` is resident."""

    end: int
    on_chip: OnChip
    option: StackOption
    around: Surroundings


StepsAfter: TypeAlias = Callable[[int, OnChip], Iterable[FusedStep]]
"""Returns fused groups that begin with the stack of this number, where these tensors are on chip."""


@dataclass(frozen=True, slots=True)
class CheapestWay:
    """The stacks of a way through the network with their places, and the fused groups among them."""

    stacks: tuple[ScheduledStack, ...]
    places: Places
    fused: tuple[FusedStep, ...]
    price: Price


@dataclass(frozen=True, slots=True)
class _Label:
    """Residents between two groups, the price of all groups before, and the last of these with its places."""

    on_chip: OnChip
    price: Price = (0, 0, 0)
    stack: ScheduledStack | None = None
    places: StackPlaces = field(default_factory=StackPlaces)
    before: _Label | None = None
    fused: FusedStep | None = None


@dataclass(frozen=True, slots=True)
class _Outer:
    """The tensors of a group that other groups write or read.

    `memories` maps the tensors that it reads, and then the ones that it writes, to the memories that may hold them.
    `bands_of` maps each operand to its network tensors, more than one for a concatenation that is not made. `later`
    holds the tensors that later groups read, the one that is read last first.
    """

    read: dict[str, tuple[str, ...]]
    written: dict[str, tuple[str, ...]]
    bands_of: dict[str, frozenset[str]]
    later: tuple[str, ...]


@dataclass(slots=True)
class ResidencyPath:
    """The search for the residencies of one set of groups; `width` is the most labels kept between two groups.

    If `is_narrow`, parameters stay where they are, and feature maps are only tried in the largest memory for them.
    """

    composer: Composer
    prices: StackPrices
    width: int
    is_narrow: bool = False
    _rates: MemoryRates = field(init=False)

    def __post_init__(self) -> None:
        self._rates = MemoryRates(self.composer.accelerator)

    def found(self, base: Places, run: Run) -> Places | None:
        """Return the cheapest places found; None if no label reaches the end, or the composer's run has to stop.

        Tensors inside a group stay where `base` has them, and all tensors of the groups for which `run` has no time.
        """
        found = self.found_with_groups(base, run, lambda *_: ())
        return None if found is None else found.places

    def found_with_groups(self, base: Places, run: Run, groups: StepsAfter) -> CheapestWay | None:
        """Return the cheapest way on which fused groups may replace stacks; None as above."""
        given = base.by_stack()
        count = len(self.composer.stacks)
        found: list[dict[OnChip, _Label]] = [{} for _ in range(count + 1)]
        found[0][frozenset()] = _Label(frozenset())
        for stack in range(count):
            outer, own = self._outer(stack), given.get(stack, StackPlaces())
            for label in self._kept(found[stack].values()):
                for places in (own,) if run.stop is not None else self._choices(outer, own, label.on_chip):
                    if self.composer.run.stop is not None:
                        return None
                    _offer(found[stack + 1], self._continued(stack, places, label))
                for step in groups(stack, label.on_chip):
                    _offer(found[step.end], self._fused(step, label))
            found[stack].clear()
        best = min(found[-1].values(), key=lambda one: one.price, default=None)
        if best is None:
            return None
        way = [*_way(best)][::-1]
        return CheapestWay(
            tuple(one.stack for one in way if one.stack is not None),
            Places.of_stacks([one.places for one in way]),
            tuple(one.fused for one in way if one.fused is not None),
            best.price,
        )

    def _continued(self, stack: int, places: StackPlaces, label: _Label) -> _Label | None:
        try:
            group = self.composer.continued(stack, places, label.on_chip)
        except NoMappingError:
            return None
        price = self._with(label.price, self._demand(group))
        return _Label(group.movements.after, price, self.composer.stacks[stack], places, label)

    def _fused(self, step: FusedStep, label: _Label) -> _Label:
        option = step.option
        places = option.places.by_stack().get(0, StackPlaces())
        return _Label(step.on_chip, self._with(label.price, option.figures), option.stack, places, label, step)

    def _with(self, price: Price, demand: StackDemand) -> Price:
        """Return a price with that of a group added."""
        return price[0] + self.prices.of(demand), price[1] + demand.energy_fj, price[2] + demand.traffic_bytes

    def _demand(self, group: ComposedStack) -> StackDemand:
        """Return the demand of a group: its cycles are the turn of the array or that of DRAM, if this is longer."""
        cycles = max(group.cycles, dram_cycles(self._rates, group.traffic_bytes * 8, 0))
        return StackDemand({}, group.traffic_bytes, cycles, group.energy_fj)

    def _kept(self, found: Iterable[_Label]) -> list[_Label]:
        """Return the cheapest labels, and the one with the fewest bytes on chip: it leaves most choices."""
        labels = sorted(found, key=lambda one: one.price)
        if len(labels) <= self.width:
            return labels
        tensors = self.composer.network.graph.tensor

        def held_bytes(label: _Label) -> int:
            return sum(tensors[name].size_bytes * len(held) for name, _, held, _ in label.on_chip)

        least = min(labels, key=held_bytes)
        return [*(one for one in labels[: self.width] if one is not least), least]

    def _outer(self, stack: int) -> _Outer:
        network = self.composer.network
        steps = network.steps_of_stack[stack]
        operands = [one for at in steps for one in network.steps[at].operands]
        last = network.steps[steps.stop - 1].operands if steps else ()
        inner = {one.tensor for one in operands if one.operand is Operand.OUTPUT}
        outputs = {one.tensor for one in last if one.operand is Operand.OUTPUT}
        bands_of: dict[str, frozenset[str]] = {}
        for one in operands:
            bands_of[one.tensor] = bands_of.get(one.tensor, frozenset()) | {base_of(band) for band in one.bands}
        next_read = {
            base_of(tensor): next_read
            for at in steps
            for tensor, next_read in network.in_use[at]
            if next_read is not None and next_read >= steps.stop
        }
        return _Outer(
            {
                one.tensor: self._memories(one.operand)
                for one in operands
                if one.operand is not Operand.OUTPUT
                and not bands_of[one.tensor] <= inner
                and not (self.is_narrow and one.operand is Operand.WEIGHT)
            },
            {name: self._memories(Operand.OUTPUT) for name in sorted(outputs)},
            bands_of,
            tuple(sorted(next_read, key=lambda name: (-next_read[name], name))),
        )

    def _memories(self, operand: Operand) -> tuple[str, ...]:
        """Return the memories in which such an operand may lie, from the MACs outwards."""
        levels = [level.memory for level in self.composer.accelerator.addressed if operand in level.memory.holds]
        if self.is_narrow and levels:
            levels = [max(levels, key=lambda one: one.capacity_bytes)]
        return tuple(one.name for one in levels)

    def _choices(self, outer: _Outer, given: StackPlaces, on_chip: OnChip) -> Iterator[StackPlaces]:
        """Yield places of the group: where it reads and writes its outer tensors, and which leave behind it."""
        tensors = self.composer.network.graph.tensor
        held: dict[str, set[str]] = {}
        for name, _, memories, _ in on_chip:
            held.setdefault(base_of(tensors[name]), set()).update(memories)
        options = [
            *(self._options(outer, name, memories, held) for name, memories in outer.read.items()),
            *((None, *memories) for memories in outer.written.values()),
        ]
        names = [*outer.read, *outer.written]
        inside = [one for one in given.read if one[0] not in outer.read]
        made = [one for one in given.written if one[0] not in outer.written]
        for chosen in _combined(options):
            placed = [(name, memory) for name, memory in zip(names, chosen, strict=True) if memory is not None]
            on = {*held, *(part for name, _ in placed for part in outer.bands_of[name])}
            of_read = frozenset((*inside, *(one for one in placed if one[0] in outer.read)))
            of_written = frozenset((*made, *(one for one in placed if one[0] in outer.written)))
            for leaving in _leaving([name for name in outer.later if name in on]):
                yield StackPlaces(of_read, of_written, given.waiting, frozenset(leaving))

    def _options(
        self, outer: _Outer, name: str, memories: Sequence[str], held: dict[str, set[str]]
    ) -> tuple[str | None, ...]:
        """Return the memories that may serve reads of a tensor: its memory or nearer the MACs; any if it is in DRAM."""
        common = set[str].intersection(*(held.get(part, set()) for part in outer.bands_of[name]))
        where = next((at for at, memory in enumerate(memories) if memory in common), None)
        return (None, *memories) if where is None else tuple(memories[: where + 1])


def _combined(options: Sequence[Sequence[str | None]]) -> Iterator[tuple[str | None, ...]]:
    """Yield a choice of each operand; if these are too many, those that differ from the first in one, or in none."""
    if prod(map(len, options)) <= MOST_CHOICES:
        yield from product(*options)
        return
    for first in (tuple(one[0] for one in options), tuple(one[-1] for one in options)):
        yield first
        for at, own in enumerate(options):
            yield from ((*first[:at], one, *first[at + 1 :]) for one in own if one != first[at])


def _leaving(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield sets of tensors that leave behind a group."""
    if len(names) > MOST_LEAVING:
        yield from (tuple(names[:count]) for count in range(len(names) + 1))
        return
    for count in range(len(names) + 1):
        yield from combinations(names, count)


def _offer(found: dict[OnChip, _Label], one: _Label | None) -> None:
    """Keep a label if it is the cheapest with its residents."""
    if one is not None and (one.on_chip not in found or one.price < found[one.on_chip].price):
        found[one.on_chip] = one


def _way(label: _Label) -> Iterator[_Label]:
    """Yield the labels of the groups before, the last group first."""
    while label.before is not None:
        yield label
        label = label.before
