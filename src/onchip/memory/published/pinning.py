"""`--method pinning`: the multi-scratchpad ILP of Jang's thesis (Drexel 2023) as it stands, then addresses.

It counts transitions of tensors between steps, in a fixed order, without addresses: the plan is worth what its
transfers cost, which is not what the model minimises.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TYPE_CHECKING

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, non_compulsory_cost
from onchip.memory.retention.kept_gaps import PackingOfPart
from onchip.memory.spill.min_peak import with_order_settled
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import MipOutcome, UnfinishedModelError, solve_mip

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

METHOD = "pinning"
MOST_PLACES = 200_000


def solve_as_thesis(problem: Problem, run: Run) -> SearchResult[Plan]:
    """Solve the formulation and pack its answer; UNKNOWN if that has no addresses, or the model is too large.

    Bound 0: OPTIMAL only if nothing is moved at all. INFEASIBLE if a single operator does not fit.
    """
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    indexed = IndexedProblem.of(with_order_settled(problem, run))
    incumbent = PlanIncumbent(indexed, run)
    if _place_count(indexed) > MOST_PLACES:
        incumbent.stopped_by = Stop.MEMORY_LIMIT
        return incumbent.result(METHOD)
    try:
        thesis = PinningModel(indexed, range(indexed.operator_count), run)
    except UnfinishedModelError:
        incumbent.stopped_by = run.stop or Stop.TIME_LIMIT
        return incumbent.result(METHOD)
    outcome = solve_mip(thesis.model, run, mostly_linear=True)
    incumbent.stopped_by = outcome.stopped_by
    if outcome.values is not None:
        _offer_packed(incumbent, schedule_of(thesis, outcome))
    return incumbent.result(METHOD)


def _place_count(indexed: IndexedProblem) -> int:
    """Return the number of variables x[n][k][m]."""
    lives = (uses[-1] + 1 - uses[0] for uses in indexed.uses(range(indexed.operator_count)) if uses)
    return sum(lives) * len(indexed.views)


def schedule_of(thesis: PinningModel, outcome: MipOutcome) -> OperatorSchedule:
    """Read the residencies off x, each no longer than its uses: to linger saves the model nothing."""
    indexed = thesis.indexed
    residencies: list[PlannedResidency] = []
    for tensor, uses in enumerate(thesis.uses):
        for memory in range(len(indexed.views)):
            stretch: list[int] = []
            for step in range(uses[0], uses[-1] + 2) if uses else ():
                occupies = thesis.occupies.get((tensor, memory, step))
                if occupies is not None and outcome.is_one(occupies):
                    stretch += [step] if step in uses else []
                elif stretch:
                    residencies.append(PlannedResidency(tensor, stretch[0], stretch[-1] + 1, memory))
                    stretch = []
    return OperatorSchedule(thesis.order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))


def _offer_packed(incumbent: PlanIncumbent, schedule: OperatorSchedule) -> None:
    """Give the residencies of each scratchpad addresses; report, and do not repair, a failure to pack."""
    indexed, run = incumbent.indexed, incumbent.run
    offsets_bytes: dict[PlannedResidency, int] = {}
    for memory, view in enumerate(indexed.views):
        part = schedule.in_memory(memory)
        packing = PackingOfPart(view, part, run)
        if packing.offsets_bytes is None:
            incumbent.stopped_by = Stop.NO_PACKING if packing.conflicts else run.stop or Stop.NODE_LIMIT
            return
        offsets_bytes |= zip(part.residencies, packing.offsets_bytes, strict=True)
    placed = [offsets_bytes[residency] for residency in schedule.residencies]
    incumbent.offer(schedule, placed, non_compulsory_cost(indexed, schedule), "solved")


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
