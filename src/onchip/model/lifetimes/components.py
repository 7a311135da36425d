"""Independent components of a problem, and which of them are copies of one another.

docs/search.md, *Independent components*, proves that the components of a network can be planned one after another.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onchip.answer.problem import Order, Problem
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator


@dataclass(frozen=True)
class IndependentPart:
    """An independent component of the network, as a separate problem.

    `copies` maps, for each component with the same structure and sizes, the names of this component to its names; the
    first map is the identity. Operators and tensors have one map each.
    """

    problem: Problem
    operator_names: tuple[Mapping[str, str], ...]
    tensor_names: tuple[Mapping[str, str], ...]


def components_of(problem: Problem) -> tuple[IndependentPart, ...]:
    """Return the components of a free order, each kind once, in listing order.

    There is one component if the order is restricted, or if states may stay on chip between all operators.
    """
    groups = _groups_of_operators(problem)
    if len(groups) < 2:
        names = {operator.name: operator.name for operator in problem.graph.operators}
        return (IndependentPart(problem, (names,), ({tensor.name: tensor.name for tensor in problem.graph.tensors},)),)
    colours = _Colours(problem)
    kinds: dict[Hashable, list[_Numbered]] = {}
    for group in groups:
        numbered = colours.numbered(group)
        kinds.setdefault(numbered.signature, []).append(numbered)
    place = {tensor.name: at for at, tensor in enumerate(problem.graph.tensors)}
    return tuple(_component(problem, place, alike) for alike in kinds.values())


def _groups_of_operators(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Return groups of operators that share a counted tensor, a tile of one tensor or a state."""
    operators = problem.graph.operators
    everything = tuple(range(len(operators)))
    if problem.order is not Order.FREE or problem.graph.states:
        return (everything,)
    ties = _Ties(problem)
    root = list(everything)

    def find(number: int) -> int:
        while root[number] != number:
            root[number] = root[root[number]]
            number = root[number]
        return number

    first: dict[str, int] = {}
    for number, operator in enumerate(operators):
        for tie in ties.of(operator):
            other, own = find(first.setdefault(tie, number)), find(number)
            root[max(other, own)] = min(other, own)
    groups: dict[int, list[int]] = {}
    for number in everything:
        groups.setdefault(find(number), []).append(number)
    return tuple(map(tuple, groups.values()))


class _Ties:
    """The names that join all operators that use them."""

    def __init__(self, problem: Problem) -> None:
        self._names = {
            tensor.name: tensor.part_of or tensor.name for tensor in problem.graph.tensors if problem.counts(tensor)
        }
        for state in problem.settled_states:
            self._names[state.old] = self._names[state.new] = state.old

    def of(self, operator: Operator) -> Iterable[str]:
        for name in (*operator.reads, *operator.outputs):
            if name in self._names:
                yield self._names[name]


@dataclass(frozen=True)
class _Numbered:
    """A component: its operators as listed and in canonical order; components of one signature are copies."""

    signature: Hashable
    listed: tuple[Operator, ...]
    operators: tuple[Operator, ...]
    tensors: tuple[str, ...]


class _Colours:
    """The canonical order of a component's operators, by colour; it recognises most copies in any listing order.

    A colour is a number that represents an operator's ancestors and descendants. If colours cannot distinguish two
    listings of one component, these may get different signatures; both are then planned.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._graph = problem.graph
        self._number: dict[Hashable, int] = {}
        self._is_unique = frozenset(
            name for state in problem.settled_states for name in (state.old, state.new)
        ) | frozenset(tensor.name for tensor in problem.graph.tensors if tensor.part_of is not None)

    def numbered(self, group: Sequence[int]) -> _Numbered:
        """Return a component in canonical order."""
        listed = [self._graph.operators[number] for number in group]
        ordered = self._in_canonical_order(listed)
        place: dict[str, int] = {}
        for operator in ordered:
            for name in (*operator.inputs, *operator.parameters, *operator.outputs):
                place.setdefault(name, len(place))
        signature: Hashable = (
            tuple(self._row(operator, place) for operator in ordered),
            tuple(self._facts(name) for name in place),
        )
        if any(name in self._is_unique for name in place):
            signature = (signature, group[0])
        return _Numbered(signature, tuple(listed), tuple(ordered), tuple(place))

    def _row(self, operator: Operator, place: Mapping[str, int]) -> Hashable:
        """Describe an operator by the places of its tensors."""
        lists = (operator.inputs, operator.parameters, operator.outputs)
        numbers = tuple(tuple(place[name] for name in names) for names in lists)
        shared = tuple((place[one.input], place[one.output], one.shift_bytes) for one in operator.in_place)
        return numbers, shared, self._own(operator)

    def _own(self, operator: Operator) -> Hashable:
        """Describe an operator without its tensors."""
        again = self._problem.may_run_again(operator), self._problem.cost_again(operator)
        return (operator.workspace_bytes, *again)

    def _facts(self, name: str) -> Hashable:
        tensor = self._graph.tensor[name]
        return tensor.size_bytes, tensor.role.value, self._problem.counts(tensor)

    def _colour(self, *facts: Hashable) -> int:
        return self._number.setdefault(facts, len(self._number))

    def _in_canonical_order(self, listed: Sequence[Operator]) -> list[Operator]:
        """Return the operators in topological order; among ready operators the least colour is first."""
        above, below = self._above(listed), self._below(listed)
        colour = {one.name: self._colour("operator", above[one.name], below[one.name]) for one in listed}
        own = {one.name: at for at, one in enumerate(listed)}
        producer = {name: one.name for one in listed for name in one.outputs}
        waits = {one.name: {producer[name] for name in one.inputs if name in producer} for one in listed}
        after: dict[str, list[str]] = {one.name: [] for one in listed}
        for name, befores in waits.items():
            for before in befores:
                after[before].append(name)
        ready = [(colour[one.name], own[one.name]) for one in listed if not waits[one.name]]
        heapq.heapify(ready)
        ordered = []
        while ready:
            operator = listed[heapq.heappop(ready)[1]]
            ordered.append(operator)
            for name in after[operator.name]:
                waits[name].discard(operator.name)
                if not waits[name]:
                    heapq.heappush(ready, (colour[name], own[name]))
        return ordered

    def _above(self, listed: Sequence[Operator]) -> dict[str, int]:
        """Return a colour for each operator and all that it depends on."""
        colours: dict[str, int] = {}
        written: dict[str, int] = {}
        for operator in listed:
            read = tuple((self._facts(name), written.get(name, -1)) for name in operator.reads)
            colour = self._colour("above", self._own(operator), read, tuple(map(self._facts, operator.outputs)))
            colours[operator.name] = colour
            written.update((name, self._colour("output", colour, at)) for at, name in enumerate(operator.outputs))
        return colours

    def _below(self, listed: Sequence[Operator]) -> dict[str, int]:
        """Return a colour for each operator and all that depends on it."""
        colours: dict[str, int] = {}
        read: dict[str, list[int]] = {}
        for operator in reversed(listed):
            written = tuple((self._facts(name), tuple(sorted(read.get(name, ())))) for name in operator.outputs)
            colour = self._colour("below", self._own(operator), written)
            colours[operator.name] = colour
            for at, name in enumerate(operator.reads):
                read.setdefault(name, []).append(self._colour("input", colour, at))
        return colours


def _component(problem: Problem, place: Mapping[str, int], alike: Sequence[_Numbered]) -> IndependentPart:
    """State the first of several copies as a problem, and map its names to those of each copy."""
    first, tensors = alike[0], problem.graph.tensors
    used = set(first.tensors)
    states = tuple(state for state in problem.settled_states if {state.old, state.new} & used)
    used.update(name for state in states for name in (state.old, state.new))
    listed = tuple(tensors[at] for at in sorted(place[name] for name in used))
    graph = Graph(problem.graph.name, listed, first.listed)
    own = [operator.name for operator in first.operators]
    return IndependentPart(
        replace(problem, graph=graph, settled_states=states),
        tuple(dict(zip(own, (operator.name for operator in one.operators), strict=True)) for one in alike),
        tuple(dict(zip(first.tensors, one.tensors, strict=True)) for one in alike),
    )
