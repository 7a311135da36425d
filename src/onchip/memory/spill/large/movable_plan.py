"""A plan in bytes, order and what stays, of which a few steps at a time are planned anew while the rest is as it was.

Between two uses of a tensor it either stays or comes back at the next: nothing else is to be known beside the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency, SearchMove, schedule_of_moves
from onchip.model.lifetimes.bit_masks import mask_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import uses_of


@dataclass(frozen=True, slots=True)
class WindowTensor:
    """A tensor that the steps of a window use, or that stays through them; `uses` are operators, in order.

    Of these some lie `before` the window, which needs nothing but the last of them, and some `within`. It stays from
    before (`comes`), or stays for what follows (`goes`). It is `stored` if DRAM gets or has a copy anyway.
    """

    tensor: int
    before: int | None
    within: tuple[int, ...]
    comes: bool
    goes: bool
    stored: bool


@dataclass(frozen=True, slots=True)
class PlanWindow:
    """The steps [begin, begin + operators) as a problem of its own, and what they cost now.

    Its operator 0 writes what stays from before, numbers from 1 on are the `operators`, and behind them each tensor
    that stays for later has one that reads it.
    """

    begin: int
    operators: tuple[int, ...]
    tensors: tuple[WindowTensor, ...]
    problem: IndexedProblem
    cost: int


class MovablePlan:
    """An order and what stays, in one scratchpad in which nothing is overwritten."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self.indexed = indexed
        self.order = list(schedule.order)
        self.step_of = [0] * len(self.order)
        for step, operator in enumerate(self.order):
            self.step_of[operator] = step
        self._stays = set[tuple[int, int]]()
        for residency in schedule.residencies:
            within = [
                use for use in self.uses(residency.tensor) if residency.start <= self.step_of[use] < residency.stop
            ]
            self._stays.update((residency.tensor, use) for use in within[:-1])
        self._swept = 0
        self._across = set[int]()

    @property
    def cost(self) -> int:
        """What the transfers cost beyond the compulsory ones."""
        return sum(self._cost_of(tensor) for tensor in range(len(self.indexed.tensors)))

    @property
    def schedule(self) -> OperatorSchedule:
        """The plan as it is now."""
        residencies = []
        for tensor in range(len(self.indexed.tensors)):
            uses = self.uses(tensor)
            begin = 0
            for number, use in enumerate(uses, 1):
                if (tensor, use) not in self._stays:
                    steps = self.step_of[uses[begin]], self.step_of[use] + 1
                    residencies.append(PlannedResidency(tensor, *steps))
                    begin = number
        return OperatorSchedule(tuple(self.order), tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))

    def window(self, begin: int, stop: int) -> PlanWindow:
        """State the steps [begin, stop), with what is there before and after them as it is.

        Of a window that begins before the last one did, all steps are looked at again.
        """
        operators = self.order[begin:stop]
        used = {tensor for operator in operators for tensor in self.indexed.operand_lists[operator]}
        self._sweep_to(begin)
        tensors = [self._window_tensor(tensor, begin, stop) for tensor in sorted(used | self._across)]
        cost = sum(self._cost_within(one) for one in tensors)
        return PlanWindow(begin, tuple(operators), tuple(tensors), _problem(self.indexed, operators, tensors), cost)

    def put(self, window: PlanWindow, moves: Sequence[SearchMove]) -> None:
        """Put moves of the problem of the window stated last in place of what there was."""
        self.follow(window, schedule_of_moves(window.problem, moves))

    def follow(self, window: PlanWindow, schedule: OperatorSchedule) -> None:
        """Do the same with a schedule of that problem."""
        count = len(window.operators)
        steps = [window.operators[number - 1] for number in schedule.order if 1 <= number <= count]
        for step, operator in enumerate(steps, window.begin):
            self.order[step], self.step_of[operator] = operator, step
        step_within = {number: step for step, number in enumerate(schedule.order)}
        at = {operator: step_within[number] for number, operator in enumerate(window.operators, 1)}
        residencies: list[list[PlannedResidency]] = [[] for _ in window.tensors]
        for residency in schedule.residencies:
            residencies[residency.tensor].append(residency)
        behind = count + 1
        for one, there in zip(window.tensors, residencies, strict=True):
            uses = [(use, at[use]) for use in sorted(one.within, key=lambda use: self.step_of[use])]
            if one.comes and one.before is not None:
                uses.insert(0, (one.before, 0))
            self._stays.difference_update((one.tensor, use) for use, _ in uses)
            if one.goes:
                uses.append((-1, step_within[behind]))
                behind += 1
            for (use, step), (_, following) in pairwise(uses):
                if any(residency.start <= step and following < residency.stop for residency in there):
                    self._stays.add((one.tensor, use))
            if one.comes and (one.tensor, one.before) not in self._stays:
                self._across.discard(one.tensor)

    def uses(self, tensor: int) -> list[int]:
        """Return the operators that use a tensor, in the order as it is now."""
        return sorted(uses_of(self.indexed, tensor), key=lambda use: self.step_of[use])

    def _cost_of(self, tensor: int) -> int:
        missing = sum((tensor, use) not in self._stays for use in self.uses(tensor)[:-1])
        is_stored = missing and not self.indexed.backed >> tensor & 1
        return missing * self.indexed.load_costs[tensor] + (self.indexed.store_costs[tensor] if is_stored else 0)

    def _sweep_to(self, begin: int) -> None:
        """Find what stays between the step and the one before."""
        if begin < self._swept:
            self._swept, self._across = 0, set()
        for step in range(self._swept, begin):
            operator = self.order[step]
            for tensor in self.indexed.operand_lists[operator]:
                (self._across.add if (tensor, operator) in self._stays else self._across.discard)(tensor)
        self._swept = begin

    def _window_tensor(self, tensor: int, begin: int, stop: int) -> WindowTensor:
        uses = self.uses(tensor)
        before = [use for use in uses if self.step_of[use] < begin]
        within = tuple(use for use in uses if begin <= self.step_of[use] < stop)
        is_last = uses[-1] in within or not uses[len(before) + len(within) :]
        last = within[-1] if within else before[-1]
        comes = tensor in self._across
        goes = not is_last and (tensor, last) in self._stays
        inside = {*within, *(before[-1:] if comes else ())} - {*(() if goes else (last,))}
        is_stored = bool(self.indexed.backed >> tensor & 1) or any(
            (tensor, use) not in self._stays for use in uses[:-1] if use not in inside
        )
        return WindowTensor(tensor, before[-1] if before else None, within, comes, goes, is_stored)

    def _cost_within(self, one: WindowTensor) -> int:
        uses = [*((one.before,) if one.comes else ()), *one.within]
        ends = uses if one.goes else uses[:-1]
        missing = sum((one.tensor, use) not in self._stays for use in ends)
        store_cost = self.indexed.store_costs[one.tensor] if missing and not one.stored else 0
        return missing * self.indexed.load_costs[one.tensor] + store_cost


def _problem(indexed: IndexedProblem, operators: Sequence[int], tensors: Sequence[WindowTensor]) -> IndexedProblem:
    number = {one.tensor: place for place, one in enumerate(tensors)}
    at = {operator: place for place, operator in enumerate(operators, 1)}
    coming = tuple(place for place, one in enumerate(tensors) if one.comes)
    going = [place for place, one in enumerate(tensors) if one.goes]
    producer = tuple(0 if one.comes else at.get(indexed.producer[one.tensor], -1) for one in tensors)
    all_before = tuple(range(len(operators) + 1))

    def numbers(lists: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        return [tuple(number[tensor] for tensor in lists[operator]) for operator in operators]

    return replace(
        indexed,
        tensors=tuple(indexed.tensors[one.tensor] for one in tensors),
        read_lists=((), *numbers(indexed.read_lists), *((place,) for place in going)),
        write_lists=(coming, *numbers(indexed.write_lists), *(() for _ in going)),
        predecessor_lists=(
            (),
            *((0, *sorted(at[one] for one in indexed.predecessor_lists[o] if one in at)) for o in operators),
            *(all_before for _ in going),
        ),
        producer=producer,
        sizes_bytes=tuple(indexed.sizes_bytes[one.tensor] for one in tensors),
        load_costs=tuple(indexed.load_costs[one.tensor] for one in tensors),
        store_costs=tuple(indexed.store_costs[one.tensor] for one in tensors),
        backed=mask_of(place for place, one in enumerate(tensors) if one.stored or producer[place] < 0),
    )
