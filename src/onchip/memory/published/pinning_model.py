"""The formulation of Jang's thesis (Drexel 2023, 5.2), constraint by constraint; `docs/rivals.md` has the words."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TYPE_CHECKING

from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.mip import UnfinishedModelError

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt


class PinningModel:
    """x[n][k][m]: tensor n occupies scratchpad k in step m; y[n][k][m]: the cost of its transition from m to m + 1.

    A tensor is not mapped before its life begins nor after it ends (x[n][k][m] = 0 for m < B[n] and m > E[n]): there
    are variables for the steps between alone. Costs are counted in `cost_unit`, the greatest that divides them all.
    Raises UnfinishedModelError if the run has to stop before the model is written down.
    """

    def __init__(self, indexed: IndexedProblem, order: Sequence[int], run: Run) -> None:
        from ortools.math_opt.python import mathopt

        self._run = run
        self.indexed = indexed
        self.order = tuple(order)
        self.uses = indexed.uses(order)
        self.model = mathopt.Model(name="multi-scratchpad pinning")
        self.occupies: dict[tuple[int, int, int], mathopt.Variable] = {}
        self.transition: dict[tuple[int, int, int], mathopt.Variable] = {}
        self._scratchpads = range(len(indexed.views))
        views = indexed.views
        self.cost_unit = gcd(*(cost for view in views for cost in (*view.load_costs, *view.store_costs))) or 1
        self._add_variables()
        self._operands_are_on_one_scratchpad()
        self._scratchpads_take_only_what_they_hold()
        self._what_is_mapped_fits()
        self._a_transition_costs_its_transfer()
        self.model.minimize(mathopt.LinearSum(self.transition.values()))

    def _add(self, constraint: mathopt.BoundedLinearExpression | bool) -> None:
        """Write down one constraint; raises UnfinishedModelError if the run has to stop."""
        if self._run.stop is not None:
            raise UnfinishedModelError
        self.model.add_linear_constraint(constraint)

    def _add_variables(self) -> None:
        last_step = len(self.order) - 1
        for n, uses in enumerate(self.uses):
            for k in self._scratchpads if uses else ():
                if self._run.stop is not None:
                    raise UnfinishedModelError
                dearest = max(self._load(n, k), self._store(n, k))
                for m in range(uses[0], uses[-1] + 1):
                    self.occupies[n, k, m] = self.model.add_binary_variable(name=f"x_{n}_{k}_{m}")
                for m in range(max(0, uses[0] - 1), min(uses[-1] + 1, last_step)):
                    self.transition[n, k, m] = self.model.add_variable(lb=0, ub=dearest, name=f"y_{n}_{k}_{m}")

    def _operands_are_on_one_scratchpad(self) -> None:
        """A[n][m] = 1 implies that the sum of x[n][k][m] over k is 1."""
        from ortools.math_opt.python import mathopt

        for n, uses in enumerate(self.uses):
            for m in uses:
                places = mathopt.LinearSum(self.occupies[n, k, m] for k in self._scratchpads)
                self._add(places == 1)

    def _scratchpads_take_only_what_they_hold(self) -> None:
        """x[n][k][m] = 0 where A[n][m] = 1 and k does not hold such an operand: not in the thesis."""
        for n, uses in enumerate(self.uses):
            for m in uses:
                is_written = self.indexed.producer[n] == self.order[m]
                taken_in = (self.indexed.written_in if is_written else self.indexed.read_in)[n]
                for k in self._scratchpads:
                    if not taken_in >> k & 1:
                        self.occupies[n, k, m].upper_bound = 0

    def _what_is_mapped_fits(self) -> None:
        """The sum of s[n] x[n][k][m] over n is at most Q[k], both in units of the alignment, rounded up."""
        from ortools.math_opt.python import mathopt

        mapped: dict[tuple[int, int], list[mathopt.LinearTypes]] = {}
        for (n, k, m), occupies in self.occupies.items():
            mapped.setdefault((k, m), []).append(self.indexed.views[k].room.units[n] * occupies)
        for (k, _), terms in mapped.items():
            memory = self.indexed.problem.memories[k]
            capacity_units = -(-memory.capacity_bytes // memory.alignment_bytes)
            self._add(mathopt.LinearSum(terms) <= capacity_units)

    def _a_transition_costs_its_transfer(self) -> None:
        """S[n] (x[n][k][m+1] - x[n][k][m]) <= y[n][k][m] and S[n] (x[n][k][m] - x[n][k][m+1]) <= y[n][k][m].

        S[n] is the cost of a load and of a store, both its bytes where traffic is least.
        """
        for (n, k, m), transition in self.transition.items():
            before, after = self.occupies.get((n, k, m), 0.0), self.occupies.get((n, k, m + 1), 0.0)
            self._add(self._load(n, k) * (after - before) <= transition)
            self._add(self._store(n, k) * (before - after) <= transition)

    def _load(self, tensor: int, memory: int) -> int:
        return self.indexed.views[memory].load_costs[tensor] // self.cost_unit

    def _store(self, tensor: int, memory: int) -> int:
        return self.indexed.views[memory].store_costs[tensor] // self.cost_unit
