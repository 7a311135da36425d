"""The front of a run of operators as one stack: tilings of which none is at most as much as another in all that counts.

What counts is what the stack's own schedule takes: as a network of its own, which reads from DRAM and writes there what
its places do not keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.model.program.figures import ScheduleFigures
from onchip.scheduling.program.places import Places

Operators: TypeAlias = tuple[str, ...]
"""A run of operators, by name."""


@dataclass(frozen=True, slots=True)
class StackDemand:
    """What a stack takes alone; `held_bytes` are the most that it has resident at once, by memory."""

    held_bytes: Mapping[str, int]
    traffic_bytes: int
    cycles: int
    energy_fj: int

    @classmethod
    def of(cls, figures: ScheduleFigures) -> StackDemand:
        """Those of a schedule that has this stack alone."""
        held = {name: one.peak_bytes for name, one in figures.memories.items()}
        return cls(held, figures.traffic_bytes, figures.latency_cycles, figures.energy_fj)

    def is_no_more_than(self, other: StackDemand) -> bool:
        """Whether none of its figures is above the other's."""
        return (
            self.traffic_bytes <= other.traffic_bytes
            and self.cycles <= other.cycles
            and self.energy_fj <= other.energy_fj
            and all(size <= other.held_bytes.get(memory, 0) for memory, size in self.held_bytes.items())
        )


@dataclass(frozen=True, slots=True)
class StackOption:
    """A stack in its tiles, and where its maps lie; in its places it has the number 0."""

    stack: ScheduledStack
    places: Places
    figures: StackDemand


@dataclass(frozen=True, slots=True)
class StackPrices:
    """What a stack adds to the objective of a schedule that takes `energy_fj` and `latency_cycles` as a whole.

    The product of both grows by the stack's energy times the latency, and by its cycles times the energy.
    """

    objective: ScheduleObjective
    energy_fj: int = 1
    latency_cycles: int = 1

    def of(self, figures: StackDemand) -> int:
        """The price of a stack."""
        return {
            ScheduleObjective.ENERGY: figures.energy_fj,
            ScheduleObjective.LATENCY: figures.cycles,
            ScheduleObjective.EDP: figures.energy_fj * self.latency_cycles + figures.cycles * self.energy_fj,
            ScheduleObjective.TRAFFIC: figures.traffic_bytes,
        }[self.objective]


@dataclass(frozen=True, slots=True)
class StackFront:
    """Options for the same operators, in the order in which they were found."""

    options: tuple[StackOption, ...] = ()

    def with_option(self, found: StackOption) -> StackFront:
        """Return the front of these and another; of two that are alike the first stays."""
        if any(one.figures.is_no_more_than(found.figures) for one in self.options):
            return self
        kept = (one for one in self.options if not found.figures.is_no_more_than(one.figures))
        return StackFront((*kept, found))

    def least(self, prices: StackPrices) -> StackOption | None:
        """The option of the least price, the first of several; None where there is none."""
        return min(self.options, key=lambda one: prices.of(one.figures), default=None)


def cheapest_cuts(
    stacks: Sequence[ScheduledStack], fronts: Mapping[Operators, StackFront], prices: StackPrices
) -> tuple[StackOption, ...]:
    """Options of least price together, of operators in the order of the stacks, cut anywhere that fronts allow.

    A stack whose operators have no front stays as it is, and counts nothing: what has a front with some of its
    operators has to have all of them, and then it has to have one itself. Of what stays nothing is returned.
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
