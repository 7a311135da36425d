"""The Pareto front of a run of operators as one fused group, over its tilings.

Costs are those of the group's own schedule as a separate network, which reads from and writes to DRAM everything that
its placements do not keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.arch.memory import DRAM
from onchip.model.program.figures import ScheduleFigures
from onchip.scheduling.program.places import Places

Operators: TypeAlias = tuple[str, ...]
"""Names of consecutive operators."""


@dataclass(frozen=True, slots=True)
class StackDemand:
    """The cost of a group alone; `held_bytes` is its peak of resident bytes by memory."""

    held_bytes: Mapping[str, int]
    traffic_bytes: int
    cycles: int
    energy_fj: int

    @classmethod
    def of(cls, figures: ScheduleFigures) -> StackDemand:
        """Return the demand from the figures of a schedule with this group alone."""
        held = {name: one.peak_bytes for name, one in figures.memories.items()}
        return cls(held, figures.traffic_bytes, figures.latency_cycles, figures.energy_fj)

    def is_no_more_than(self, other: StackDemand) -> bool:
        """Return True if none of its figures exceeds the other's."""
        return (
            self.traffic_bytes <= other.traffic_bytes
            and self.cycles <= other.cycles
            and self.energy_fj <= other.energy_fj
            and all(size <= other.held_bytes.get(memory, 0) for memory, size in self.held_bytes.items())
        )


@dataclass(frozen=True, slots=True)
class StackOption:
    """A tiled group and its placements, in which it has the number 0."""

    stack: ScheduledStack
    places: Places
    figures: StackDemand


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The memories on chip of a group's inputs and output, and the bits that other tensors take while it runs."""

    homes: Mapping[str, str] = field(default_factory=dict)
    output_home: str = DRAM
    taken_bits: Mapping[str, int] = field(default_factory=dict)
    read_last: frozenset[str] = frozenset()
    """Inputs that no later operator reads."""

    def named(self, tensors: Sequence[str]) -> tuple[object, ...]:
        """Return the surroundings of a group with numbers of its tensors in place of names."""
        homes = tuple((tensors.index(name), memory) for name, memory in sorted(self.homes.items()))
        read_last = tuple(tensors.index(name) for name in sorted(self.read_last))
        return homes, self.output_home, tuple(sorted(self.taken_bits.items())), read_last

    def renamed(self, names: Mapping[str, str]) -> Surroundings:
        """Return the same surroundings of a group whose tensors have other names."""
        homes = {names[name]: memory for name, memory in self.homes.items()}
        return Surroundings(homes, self.output_home, self.taken_bits, frozenset(names[name] for name in self.read_last))


IN_DRAM: Final = Surroundings()
"""The surroundings of a group that reads and writes DRAM, with nothing else on chip."""


@dataclass(frozen=True, slots=True)
class StackPrices:
    """The marginal price of a group in a schedule with `energy_fj` and `latency_cycles` in total.

    The energy-delay product grows by the group's energy times the latency, and by its cycles times the energy.
    """

    objective: ScheduleObjective
    energy_fj: int = 1
    latency_cycles: int = 1

    def of(self, figures: StackDemand) -> int:
        """Return the price of a group."""
        return {
            ScheduleObjective.ENERGY: figures.energy_fj,
            ScheduleObjective.LATENCY: figures.cycles,
            ScheduleObjective.EDP: figures.energy_fj * self.latency_cycles + figures.cycles * self.energy_fj,
            ScheduleObjective.TRAFFIC: figures.traffic_bytes,
        }[self.objective]


@dataclass(frozen=True, slots=True)
class StackFront:
    """The options of the same operators, in the order found."""

    options: tuple[StackOption, ...] = ()

    def with_option(self, found: StackOption) -> StackFront:
        """Return the front with another option; the first of equal ones stays."""
        if any(one.figures.is_no_more_than(found.figures) for one in self.options):
            return self
        kept = (one for one in self.options if not found.figures.is_no_more_than(one.figures))
        return StackFront((*kept, found))

    def least(self, prices: StackPrices) -> StackOption | None:
        """Return the first option of least price; None if there is none."""
        return min(self.options, key=lambda one: prices.of(one.figures), default=None)


def cheapest_cuts(
    stacks: Sequence[ScheduledStack], fronts: Mapping[Operators, StackFront], prices: StackPrices
) -> tuple[StackOption, ...]:
    """Return the options of least total price that partition the operators, cut anywhere that fronts allow.

    A stack whose operators have no front stays unchanged, has price 0 and is not returned. An option with some of its
    operators must cover all of them, and then it must have a front itself.
    """
    order = tuple(name for stack in stacks for name in stack.operators)
    best: list[tuple[int, tuple[StackOption, ...]] | None] = [(0, ()), *(None for _ in order)]
    stays = {stack.operators[0]: len(stack.operators) for stack in stacks if stack.operators not in fronts}
    arcs: dict[str, list[tuple[Operators, StackOption]]] = {}
    for operators, front in fronts.items():
        if (least := front.least(prices)) is not None:
            arcs.setdefault(operators[0], []).append((operators, least))
    for at, name in enumerate(order):
        so_far = best[at]
        if so_far is None:
            continue
        value, chosen = so_far
        if name in stays:
            _offer(best, at + stays[name], so_far)
        for operators, option in arcs.get(name, ()):
            if order[at : at + len(operators)] == operators:
                _offer(best, at + len(operators), (value + prices.of(option.figures), (*chosen, option)))
    found = best[-1]
    return () if found is None else found[1]


def _offer(
    best: list[tuple[int, tuple[StackOption, ...]] | None], at: int, way: tuple[int, tuple[StackOption, ...]]
) -> None:
    known = best[at]
    if known is None or way[0] < known[0]:
        best[at] = way
