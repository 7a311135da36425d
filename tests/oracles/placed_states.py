"""Whether any plan costs less than so much, for small networks in one scratchpad: every state of the scratchpad.

A state is what has run, what lies where, and what DRAM has a copy of. Before an operator runs, any of the others may
leave; what it reads and is not there is loaded, at any offset, and what it writes is put at any offset. Nothing is
shared with the solver, not even data types, and nothing is clever but that states come only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations

from oracles.one_plan import Question
from oracles.packing import TooLargeError

Places = frozenset[tuple[int, int]]
"""(tensor, offset in bytes)."""


@dataclass(frozen=True, slots=True)
class State:
    """Between two operators."""

    done: frozenset[int]
    places: Places
    stored: frozenset[int]


def costs_less(question: Question, capacity: int, cost: int, most_tries: int, *, is_given: bool = False) -> bool:
    """Whether some plan's non-compulsory bytes are below `cost`; raises TooLargeError after so many offsets tried."""
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
    """Runs one operator after another; raises TooLargeError after so many offsets tried."""

    question: Question
    capacity: int
    is_given: bool
    most_tries: int

    def steps(self, state: State, below: int) -> Iterator[tuple[int, State]]:
        """Every way to run any operator, with what it costs."""
        made = {tensor for written in self.question.writes for tensor in written}
        have = {tensor for operator in state.done for tensor in self.question.writes[operator]}
        for operator, reads in enumerate(self.question.reads):
            is_its_turn = operator == len(state.done) if self.is_given else operator not in state.done
            if is_its_turn and all(tensor in have or tensor not in made for tensor in reads):
                yield from self._runs(state, operator, below)

    def _runs(self, state: State, operator: int, below: int) -> Iterator[tuple[int, State]]:
        """Some of the others leave; whoever is read again and has no copy is stored, and will be loaded again."""
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
        """Also an operand may go and come back at another offset."""
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
        """At every offset that is free."""
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
        """Whatever nobody reads again is gone."""
        done = state.done | {operator}
        live = {tensor for o, reads in enumerate(self.question.reads) if o not in done for tensor in reads}
        remaining = frozenset(place for place in places if place[0] in live)
        return State(done, remaining, (state.stored | unsaved) & live)
