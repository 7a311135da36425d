"""Who runs before whom, as literals: sure from the graph, or decided by the solver."""

from __future__ import annotations

from itertools import combinations
from typing import Any, TypeAlias

from ortools.sat.python import cp_model

from onchip.audits.facts import ProblemFacts, bits_of
from onchip.audits.search import in_time
from onchip.search.budget.clock import Deadline

Literal: TypeAlias = Any
"""A boolean of a model, or its negation; ortools gives them no type with an index."""
GREATEST_TRIANGLES = 300_000
"""More are left out: then some solutions are no orders, and only that there is none says something."""


class Sequence:
    """A literal for each pair of operators, and clauses that make an order of them."""

    def __init__(self, model: cp_model.CpModel, facts: ProblemFacts) -> None:
        self._model = model
        self._facts = facts
        self._true = model.new_constant(1)
        self._decided: dict[tuple[int, int], cp_model.IntVar] = {}

    def is_sure(self, first: int, second: int) -> bool:
        """Whether the first runs before the second in every order that is allowed."""
        return bool(self._facts.before[second] >> first & 1)

    def may_precede(self, first: int, second: int) -> bool:
        """Whether the first runs before the second in some order that is allowed."""
        return first != second and not self.is_sure(second, first)

    def precedes(self, first: int, second: int) -> Literal:
        """Whether the first runs before the second."""
        if self.is_sure(first, second):
            return self._true
        if self.is_sure(second, first):
            return self._true.negated()
        pair = (min(first, second), max(first, second))
        if pair not in self._decided:
            self._decided[pair] = self._model.new_bool_var("")
        return self._decided[pair] if first < second else self._decided[pair].negated()

    def undecided_of(self, operator: int) -> list[int]:
        """The operators that run before it in some orders and after it in others."""
        sure = self._facts.before[operator] | self._facts.after[operator] | 1 << operator
        return bits_of(~sure & (1 << len(self._facts.operators)) - 1)

    def make_it_an_order(self, deadline: Deadline) -> None:
        """Of three operators none comes round again: i before j before k is i before k. Raises OutOfTimeError."""
        triangles = 0
        for middle in range(len(self._facts.operators)):
            in_time(deadline)
            for first, last in combinations(self.undecided_of(middle), 2):
                triangles += 1
                if triangles > GREATEST_TRIANGLES:
                    return
                self._none_comes_round(first, middle, last)
                self._none_comes_round(last, middle, first)

    def _none_comes_round(self, first: int, middle: int, last: int) -> None:
        """Of two undecided pairs that meet in the middle, the third pair follows."""
        if not self.is_sure(first, last):
            pairs = (self.precedes(first, middle), self.precedes(middle, last))
            self._model.add_bool_or([*(~pair for pair in pairs), self.precedes(first, last)])
