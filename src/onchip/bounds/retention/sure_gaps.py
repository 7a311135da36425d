"""Lower bounds on the cost of gaps in residencies, over all orders, and in merged scratchpads.

A normalisation's gradient subtracts a mean from a convolution's output. The subtraction may run in the forward or in
the backward pass, but in between either the difference or its inputs wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import and_, or_
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.lifetimes.indexed import IndexedProblem, Precedence, bits, mask_of, uses_of
from onchip.search.budget.clock import never

FEWEST_OPERATORS: Final = 6
"""Least number of additional operators during which a tensor surely waits, for two tensors to be counted as one."""


@dataclass(frozen=True)
class Descent:
    """The parent of each tensor, an input of its producer, or -1 if it has none.

    A *line* is a tensor, its parent, and so on to the first tensor of its *family*.
    """

    parents: tuple[int, ...]

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """Return the first tensor of each tensor's line, which identifies its family."""
        return tuple(self.line(tensor)[-1] for tensor in range(len(self.parents)))

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """Return all families, each with its tensors in ascending order."""
        members: dict[int, list[int]] = {}
        for tensor, first in enumerate(self.firsts):
            members.setdefault(first, []).append(tensor)
        return tuple(map(tuple, members.values()))

    def line(self, tensor: int) -> tuple[int, ...]:
        """Return a tensor and its ancestors, ending with the first of the family."""
        line = [tensor]
        while self.parents[line[-1]] >= 0:
            line.append(self.parents[line[-1]])
        return tuple(line)


def no_descent(indexed: IndexedProblem) -> Descent:
    """Return the descent in which each tensor is a separate family."""
    return Descent((-1,) * len(indexed.tensors))


def descent_of(indexed: IndexedProblem, precedence: Precedence) -> Descent:
    """Choose parents: an input of the producer, not larger, if both together surely wait longer than either.

    They do while an operator runs that surely follows a use of the parent and surely precedes a reader of the child.
    Operators during which both surely wait count against it, because the two tensors would count as one.
    """
    waits = [_Wait.of(indexed, precedence, tensor) for tensor in range(len(indexed.tensors))]
    parents, firsts, units = [-1] * len(waits), list(range(len(waits))), indexed.room.units
    for tensor in _as_written(indexed, precedence):
        most = FEWEST_OPERATORS - 1
        for read in indexed.read_lists[indexed.producer[tensor]]:
            gain = waits[read].gain_with(waits[tensor])
            if gain > most and units[firsts[read]] <= units[tensor]:
                most, parents[tensor], firsts[tensor] = gain, read, firsts[read]
    return Descent(tuple(parents))


def _as_written(indexed: IndexedProblem, precedence: Precedence) -> Sequence[int]:
    """Return the written tensors, each after the inputs of its operator."""
    written = (tensor for tensor, producer in enumerate(indexed.producer) if producer >= 0)
    return sorted(written, key=lambda tensor: precedence.before[indexed.producer[tensor]].bit_count())


@dataclass(frozen=True, slots=True)
class _Wait:
    """Masks of operators that surely run after a use of a tensor, and of those surely before a reader of it."""

    begun: int
    awaited: int

    @classmethod
    def of(cls, indexed: IndexedProblem, precedence: Precedence, tensor: int) -> _Wait:
        begun = awaited = 0
        for use in uses_of(indexed, tensor):
            begun |= precedence.after[use]
        for reader in indexed.reader_lists[tensor]:
            awaited |= precedence.before[reader]
        return cls(begun, awaited & ~mask_of(uses_of(indexed, tensor)))

    def gain_with(self, made: _Wait) -> int:
        """Return the additional operators during which one of the two waits, less those during which both do."""
        own, others = self.begun & self.awaited, made.begun & made.awaited
        return (self.begun & made.awaited & ~own & ~others).bit_count() - (own & others).bit_count()


@dataclass(frozen=True, slots=True)
class PossibleGap:
    """A `tensor` waits while an `operator` runs that does not use it, if it has been used before.

    It has been used before in every order, or else if one of the operators `begins` runs before. It waits if one of its
    `readers` runs after. Its `family` is defined in bounds/retention/sure_gaps.py.
    """

    tensor: int
    family: int
    operator: int
    begins: tuple[int, ...]
    readers: tuple[int, ...]

    @property
    def tensors(self) -> tuple[int, ...]:
        """Return the line of the gap, as for a sure gap: this tensor alone."""
        return (self.tensor,)


class PossibleGaps:
    """The possible gaps of a problem near an order.

    Two operators that may run in either order are near each other if they are few steps apart in the order: up to
    `reach` steps for a tensor that fills the scratchpad, and fewer for smaller tensors.
    """

    def __init__(
        self, indexed: IndexedProblem, precedence: Precedence, descent: Descent, order: Sequence[int], reach: int
    ) -> None:
        self._indexed = indexed
        self._precedence = precedence
        self._descent = descent
        self._order = order
        self._reach = reach
        self._step_of = {operator: step for step, operator in enumerate(order)}
        self._until = [0]
        for operator in order:
            self._until.append(self._until[-1] | 1 << operator)

    def __iter__(self) -> Iterator[PossibleGap]:
        """Yield the gaps tensor by tensor, without those that are sure gaps of a line of one tensor."""
        room = self._indexed.room
        for tensor, readers in enumerate(self._indexed.reader_lists):
            width = int(self._reach * (room.units[tensor] / max(1, room.capacity_units)) ** 3)
            if width and readers:
                yield from self._of(tensor, readers, width)

    def _of(self, tensor: int, readers: Sequence[int], width: int) -> Iterator[PossibleGap]:
        before, after = self._precedence.before, self._precedence.after
        uses = mask_of(uses_of(self._indexed, tensor))
        first = tuple(self._precedence.first_of(uses))
        begun, never = _any(after, first), _all(before, first)
        awaited, over = _any(before, readers), _all(after, readers)
        sure = begun & awaited if self._descent.parents[tensor] < 0 else 0
        may_be_begun = (begun | self._near(first, width)) & ~never
        may_be_awaited = (awaited | self._near(readers, width)) & ~over
        for operator in bits(may_be_begun & may_be_awaited & ~uses & ~sure):
            later = self._open(operator, readers, after[operator], before[operator], width)
            begins = () if begun >> operator & 1 else self._open(operator, first, 0, after[operator], width)
            if later and (begins or begun >> operator & 1):
                yield PossibleGap(tensor, self._descent.firsts[tensor], operator, begins, later)

    def _near(self, operators: Sequence[int], width: int) -> int:
        """Return the mask of operators within `width` steps of one of the given operators."""
        near, last = 0, len(self._order)
        for operator in operators:
            step = self._step_of[operator]
            near |= self._until[min(last, step + width + 1)] ^ self._until[max(0, step - width)]
        return near

    def _open(self, operator: int, others: Sequence[int], sure: int, ruled_out: int, width: int) -> tuple[int, ...]:
        """Return those of `others` that are sure, or near the operator and not ruled out."""
        step = self._step_of[operator]
        return tuple(
            one
            for one in others
            if sure >> one & 1 or (not ruled_out >> one & 1 and abs(self._step_of[one] - step) <= width)
        )


def _any(masks: Sequence[int], chosen: Sequence[int]) -> int:
    return reduce(or_, (masks[one] for one in chosen))


def _all(masks: Sequence[int], chosen: Sequence[int]) -> int:
    return reduce(and_, (masks[one] for one in chosen))


@dataclass(frozen=True, slots=True)
class SureGap:
    """An interval of operators (a mask) during which, in every order, a tensor of a *line* (`tensors`) waits.

    The first of the tensors has readers `afters` (a mask) that surely run later; it is made from the second, and so on
    (bounds/retention/sure_gaps.py). None of the `operators` uses any of them. Of all uses of the family, `befores` (a
    mask) surely run earlier, or are the only operator; at least one of the earlier ones uses the line.
    """

    tensors: tuple[int, ...]
    befores: int
    afters: int
    operators: int

    @property
    def family(self) -> int:
        """Return the tensor that identifies the family."""
        return self.tensors[-1]


def sure_gaps(
    indexed: IndexedProblem, precedence: Precedence, descent: Descent | None = None, is_late: Callable[[], bool] = never
) -> Iterator[SureGap]:
    """Yield the sure gaps of all lines, or of all tensors without a descent, until `is_late` returns True.

    An operator is in at most one gap of each line.
    """
    known = no_descent(indexed) if descent is None else descent
    for family in known.families:
        uses = sorted({use for tensor in family for use in uses_of(indexed, tensor)})
        for tensor in family:
            yield from _gaps_of(indexed, precedence, known.line(tensor), uses, is_late)


def _gaps_of(
    indexed: IndexedProblem,
    precedence: Precedence,
    line: tuple[int, ...],
    uses_of_family: Sequence[int],
    is_late: Callable[[], bool],
) -> Iterator[SureGap]:
    readers, own = indexed.reader_lists[line[0]], mask_of(use for tensor in line for use in uses_of(indexed, tensor))
    begun = awaited = 0
    for use in bits(own):
        begun |= precedence.after[use]
    for reader in readers:
        awaited |= precedence.before[reader]
    classes, no_later = [begun & awaited & ~own], {use: precedence.after[use] | 1 << use for use in uses_of_family}
    for use in uses_of_family:
        if is_late():
            return
        classes = _split(_split(classes, no_later[use]), precedence.before[use])
    for operators in classes:
        befores = mask_of(use for use in uses_of_family if not operators & ~no_later[use])
        afters = mask_of(reader for reader in readers if not operators & ~precedence.before[reader])
        yield SureGap(line, befores, afters, operators)


def _split(classes: Iterable[int], mask: int) -> list[int]:
    return [part for whole in classes for part in (whole & mask, whole & ~mask) if part]


def groups_of_uses(
    uses: Sequence[int], step_of: Sequence[int], precedence: Precedence, most_idle_steps: int
) -> list[int]:
    """Return the uses of a tensor in groups (masks), each surely running after all uses of the group before.

    Consecutive uses at most `most_idle_steps` apart in the given order are in one group.
    """
    groups: list[int] = []
    last_step = -1
    for use in sorted(uses, key=lambda one: step_of[one]):
        if groups and step_of[use] - last_step <= most_idle_steps:
            groups[-1] |= 1 << use
        else:
            groups.append(1 << use)
        last_step = step_of[use]
        while len(groups) > 1 and any(groups[-2] & ~precedence.before[one] for one in bits(groups[-1])):
            last = groups.pop()
            groups[-1] |= last
    return groups


@dataclass(frozen=True, slots=True)
class PooledProblem:
    """The relaxation `indexed`, with the problem's orders; `forced_cost` is an additional cost of every plan."""

    indexed: IndexedProblem
    forced_cost: int


def pooled(indexed: IndexedProblem) -> PooledProblem:
    """Return one scratchpad with the total capacity, in which every operand can be read and written.

    A tensor that the array cannot read from any scratchpad it can write it to goes through DRAM, if no link leads on.
    It ends as a network output, and returns as an input.
    """
    forced_cost, detours = 0, dict[str, str]()
    for tensor, readers in enumerate(indexed.reader_lists):
        written_in, read_in = indexed.written_in[tensor], indexed.read_in[tensor]
        if indexed.producer[tensor] < 0 or not readers or written_in & read_in or indexed.links:
            continue
        detours[indexed.tensors[tensor].name] = f"{indexed.tensors[tensor].name} (read back)"
        forced_cost += min(indexed.views[m].load_costs[tensor] for m in bits(read_in))
        if indexed.tensors[tensor].role is not Role.OUTPUT:
            forced_cost += min(indexed.views[m].store_costs[tensor] for m in bits(written_in))
    if not detours:
        return PooledProblem(indexed, 0)
    problem = replace(indexed.problem, graph=_with_detours(indexed.problem.graph, detours))
    return PooledProblem(replace(IndexedProblem.of(problem), predecessor_lists=indexed.predecessor_lists), forced_cost)


def _with_detours(graph: Graph, detours: dict[str, str]) -> Graph:
    tensors = [replace(one, role=Role.OUTPUT) if one.name in detours else one for one in graph.tensors]
    tensors += [replace(graph.tensor[name], name=back, role=Role.INPUT, aliases=()) for name, back in detours.items()]
    return replace(graph, tensors=tuple(tensors), operators=tuple(_reading(one, detours) for one in graph.operators))


def _reading(operator: Operator, detours: dict[str, str]) -> Operator:
    return replace(operator, inputs=tuple(detours.get(name, name) for name in operator.inputs))
