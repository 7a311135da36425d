"""A check for a plan below a given cost, for small networks in one scratchpad: every state of the scratchpad.

A state is the executed operators, the residencies, and the tensors with a copy in DRAM. Before an operator runs, any
other tensors may be evicted; its missing inputs are loaded, and its outputs placed, at any offset. Nothing is shared
with the solver, not even data types. States are visited once; there is no other optimisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations

from oracles.one_plan import Question
from oracles.packing import TooLargeError

Places = frozenset[tuple[int, int]]
"""Pairs of (tensor, offset in bytes)."""


@dataclass(frozen=True, slots=True)
class State:
    """The state between two operators."""

    done: frozenset[int]
    places: Places
    stored: frozenset[int]


def costs_less(question: Question, capacity: int, cost: int, most_tries: int, *, is_given: bool = False) -> bool:
    """Return True if a plan has less than `cost` non-compulsory bytes; raises TooLargeError after too many offsets."""
    machine = Machine(question, capacity, is_given, most_tries)
    start = State(frozenset(), frozenset(), frozenset())
    least, waiting = {start: 0}, [start]
    while waiting:
        state = waiting.pop()
        if len(state.done) == len(question.reads):
            return True
        for more, following in machine.steps(state, cost - least[state]):
            if least[state] + more < least.get(following, cost):
                least[following] = least[state] + more
                waiting.append(following)
    return False


@dataclass(slots=True)
class Machine:
    """A machine that runs operators in turn; raises TooLargeError after `most_tries` offsets."""

    question: Question
    capacity: int
    is_given: bool
    most_tries: int

    def steps(self, state: State, below: int) -> Iterator[tuple[int, State]]:
        """Yield every way to run any operator, with its cost."""
        made = {tensor for written in self.question.writes for tensor in written}
        have = {tensor for operator in state.done for tensor in self.question.writes[operator]}
        for operator, reads in enumerate(self.question.reads):
            is_its_turn = operator == len(state.done) if self.is_given else operator not in state.done
            if is_its_turn and all(tensor in have or tensor not in made for tensor in reads):
                yield from self._runs(state, operator, below)

    def _runs(self, state: State, operator: int, below: int) -> Iterator[tuple[int, State]]:
        """Yield all evictions of other tensors; tensors read again without a copy are stored, and will be reloaded."""
        operands = self.question.operands(operator)
        others = [place for place in state.places if place[0] not in operands]
        for leaving in chain.from_iterable(combinations(others, count) for count in range(len(others) + 1)):
            unsaved = {tensor for tensor, _ in leaving if self.question.roles[tensor] == "activation"} - state.stored
            cost = sum(self.question.sizes[tensor] for tensor in unsaved)
            if cost < below:
                yield from self._with_operands(state, operator, state.places - {*leaving}, cost, below)

    def _with_operands(
        self, state: State, operator: int, places: Places, cost: int, below: int
    ) -> Iterator[tuple[int, State]]:
        """Yield all moves of operands: an operand may also leave and return at another offset."""
        question = self.question
        there = [place for place in places if place[0] in question.operands(operator)]
        for moved in chain.from_iterable(combinations(there, count) for count in range(len(there) + 1)):
            unsaved = {tensor for tensor, _ in moved if question.roles[tensor] == "activation"} - state.stored
            kept = places - {*moved}
            missing = sorted(question.operands(operator) - {tensor for tensor, _ in kept})
            again = {tensor for tensor in missing if self._was_there(state, tensor)}
            paid = cost + sum(question.sizes[tensor] for tensor in chain(unsaved, again))
            if paid < below:
                for placed in self._placed(kept, missing):
                    yield paid, self._after(state, operator, placed, unsaved)

    def _was_there(self, state: State, tensor: int) -> bool:
        return any(tensor in self.question.operands(operator) for operator in state.done)

    def _placed(self, places: Places, missing: list[int]) -> Iterator[Places]:
        """Yield the placements of missing tensors at every free offset."""
        if not missing:
            yield places
            return
        tensor, *rest = missing
        size, sizes = self.question.sizes[tensor], self.question.sizes
        for offset in range(0, self.capacity - size + 1, self.question.alignment):
            self.most_tries -= 1
            if self.most_tries < 0:
                raise TooLargeError
            if all(offset + size <= at or at + sizes[other] <= offset for other, at in places):
                yield from self._placed(places | {(tensor, offset)}, rest)

    def _after(self, state: State, operator: int, places: Places, unsaved: set[int]) -> State:
        """Return the next state, without tensors that have no further readers."""
        done = state.done | {operator}
        live = {tensor for o, reads in enumerate(self.question.reads) if o not in done for tensor in reads}
        remaining = frozenset(place for place in places if place[0] in live)
        return State(done, remaining, (state.stored | unsaved) & live)
