"""COSMA's formulation (arXiv 2311.18246), constraint by constraint; `docs/paper.md` says where it departs."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TYPE_CHECKING

from onchip.memory.published.paper_variables import ActionVariables, AddressVariables
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.windows import Windows
from onchip.search.budget.limits import Run
from onchip.search.mip import UnfinishedModelError

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt


class ActionModel:
    """What Eqs. 1 to 8 say of C, P, S and R, and Eq. 16 where the order is given: then each window is one step.

    Raises UnfinishedModelError if the run has to stop before the model is written down.
    """

    def __init__(self, indexed: IndexedProblem, windows: Windows, run: Run, *, spilling: bool) -> None:
        from ortools.math_opt.python import mathopt

        self._run = run
        self.model = mathopt.Model(name="COSMA")
        self.indexed = indexed
        self.windows = windows
        self.actions = ActionVariables(self.model, windows, run, spilling=spilling)
        self._steps = range(indexed.operator_count)
        self._tensors = range(len(indexed.tensors))
        self._a_tensor_has_one_action_in_a_step()
        self._a_tensor_is_preserved_only_if_it_was_resident()
        self._a_tensor_is_spilled_only_if_it_was_resident()
        self._a_tensor_is_retrieved_only_if_dram_has_a_copy()
        self._operators_run_while_their_inputs_are_resident()
        self._siblings_are_created_together()
        self._a_tensor_is_created_once()
        self._a_tensor_is_spilled_at_most_once()
        self._one_operator_runs_in_each_step()

    def _add(self, constraint: mathopt.BoundedLinearExpression | bool) -> None:
        """Write down one constraint; raises UnfinishedModelError if the run has to stop."""
        if self._run.stop is not None:
            raise UnfinishedModelError
        self.model.add_linear_constraint(constraint)

    def total(self, terms: Iterable[mathopt.LinearTypes]) -> mathopt.LinearBase:
        """Return the sum of terms."""
        from ortools.math_opt.python import mathopt

        return mathopt.LinearSum(terms)

    def _a_tensor_has_one_action_in_a_step(self) -> None:
        """C[a,t] + P[a,t] + R[a,t] <= 1 and C[a,t] + P[a,t] + S[a,t] <= 1 (Eq. 1)."""
        for tensor, lifetime in enumerate(self.windows.lifetimes):
            for step in lifetime:
                resident = self.actions.resident(tensor, step)
                if len(resident) > 1:
                    self._add(self.total(resident) <= 1)
                if (spill := self.actions.spilled.get((tensor, step))) is not None:
                    kept = [v.get((tensor, step)) for v in (self.actions.created, self.actions.preserved)]
                    self._add(self.total([spill, *(k for k in kept if k is not None)]) <= 1)

    def _a_tensor_is_preserved_only_if_it_was_resident(self) -> None:
        """P[a,t] <= C[a,t-1] + P[a,t-1] + R[a,t-1] (Eq. 2)."""
        for (tensor, step), preserved in self.actions.preserved.items():
            self._add(preserved <= self.total(self.actions.resident(tensor, step - 1)))

    def _a_tensor_is_spilled_only_if_it_was_resident(self) -> None:
        """S[a,t] <= C[a,t-1] + P[a,t-1] (Eq. 3)."""
        for (tensor, step), spilled in self.actions.spilled.items():
            before = [v.get((tensor, step - 1)) for v in (self.actions.created, self.actions.preserved)]
            self._add(spilled <= self.total(v for v in before if v is not None))

    def _a_tensor_is_retrieved_only_if_dram_has_a_copy(self) -> None:
        """R[a,t] <= sum of S[a,k] over k <= t (Eq. 4); for a written output, the sum of C[a,k] over k < t."""
        spilled, created = self.actions.spilled, self.actions.created
        for (tensor, step), retrieved in self.actions.retrieved.items():
            if self.indexed.producer[tensor] < 0:
                continue
            if self.indexed.backed >> tensor & 1:
                copies = [created[tensor, k] for k in self._steps[:step] if (tensor, k) in created]
            else:
                copies = [spilled[tensor, k] for k in self._steps[: step + 1] if (tensor, k) in spilled]
            self._add(retrieved <= self.total(copies))

    def _operators_run_while_their_inputs_are_resident(self) -> None:
        """C[a,t] <= P[b,t] + R[b,t] for each b in in(a) (Eq. 5)."""
        for (tensor, step), created in self.actions.created.items():
            for read in self.indexed.read_lists[self.indexed.producer[tensor]]:
                there = [v.get((read, step)) for v in (self.actions.preserved, self.actions.retrieved)]
                self._add(created <= self.total(v for v in there if v is not None))

    def _siblings_are_created_together(self) -> None:
        """C[a,t] = C[b,t] for each b in sib(a) (Eq. 6)."""
        for operator, (first, *siblings) in enumerate(self.indexed.write_lists):
            for sibling in siblings:
                for step in self.windows.steps[operator]:
                    ours, theirs = self.actions.created[first, step], self.actions.created[sibling, step]
                    self._add(ours - theirs == 0)

    def _a_tensor_is_created_once(self) -> None:
        """The sum of C[a,t] over t is 1 (Eq. 7); with a given order it has one term (Eq. 16)."""
        for tensor, producer in enumerate(self.indexed.producer):
            if producer >= 0:
                terms = [self.actions.created[tensor, step] for step in self.windows.steps[producer]]
                self._add(self.total(terms) == 1)

    def _a_tensor_is_spilled_at_most_once(self) -> None:
        """The sum of S[a,t] over t is at most 1 (Eq. 8)."""
        by_tensor: dict[int, list[mathopt.Variable]] = {}
        for (tensor, _), spilled in self.actions.spilled.items():
            by_tensor.setdefault(tensor, []).append(spilled)
        for terms in by_tensor.values():
            self._add(self.total(terms) <= 1)

    def _one_operator_runs_in_each_step(self) -> None:
        """The sum of C[a,t] over one output a of each operator is 1 (the timestep of III-A)."""
        for step in self._steps:
            firsts = (written[0] for written in self.indexed.write_lists)
            terms = [self.actions.created[first, step] for first in firsts if (first, step) in self.actions.created]
            self._add(self.total(terms) == 1)


class PaperModel(ActionModel):
    """Adds L, V, u, d, Eqs. 9 to 11, and least non-compulsory traffic (Eq. 12, or 17 where the order is given)."""

    def __init__(self, indexed: IndexedProblem, windows: Windows, run: Run) -> None:
        super().__init__(indexed, windows, run, spilling=True)
        self.addresses = AddressVariables(self.model, windows, self.actions, run)
        self._a_tensor_lies_within_the_budget()
        self._two_residents_do_not_overlap()
        self._a_preserved_tensor_keeps_its_address()
        self.cost_unit = gcd(*indexed.load_costs, *indexed.store_costs) or 1
        self._minimise_non_compulsory_traffic()

    def _a_tensor_lies_within_the_budget(self) -> None:
        """L[a,t] + Size(a) <= M_B (Eq. 9)."""
        for (tensor, _), offset in self.addresses.offset.items():
            self._add(offset <= self.addresses.last[tensor])

    def _two_residents_do_not_overlap(self) -> None:
        """If both are resident, one ends where the other begins or before (Eq. 10); M is the least that is enough."""
        units, last, offset = self.addresses.units, self.addresses.last, self.addresses.offset
        for (a, b, step), above in self.addresses.above.items():
            below = self.addresses.below[a, b, step]
            residents = (*self.actions.resident(a, step), *self.actions.resident(b, step))
            self._add(above + below <= 1)
            self._add(above + below >= self.total(residents) - 1)
            for low, high, chosen in ((a, b, below), (b, a, above)):
                enough = last[low] + units[low]
                distance = offset[low, step] + units[low] - offset[high, step]
                self._add(distance <= enough * (1 - chosen))

    def _a_preserved_tensor_keeps_its_address(self) -> None:
        """V[a,t] = res[a,t-1] and P[a,t]; then L[a,t-1] = L[a,t] (Eq. 11)."""
        last, offset = self.addresses.last, self.addresses.offset
        for (tensor, step), stays in self.addresses.stays.items():
            preserved = self.actions.preserved[tensor, step]
            before = self.total(self.actions.resident(tensor, step - 1))
            self._add(stays >= before + preserved - 1)
            self._add(stays <= before)
            self._add(stays <= preserved)
            now, then = offset[tensor, step], offset[tensor, step - 1]
            self._add(then - now <= last[tensor] * (1 - stays))
            self._add(now - then <= last[tensor] * (1 - stays))

    def _minimise_non_compulsory_traffic(self) -> None:
        """The sum of S[a,t] x its store and R[a,t] x its load, but for the one load of what DRAM had (Eq. 12).

        Counted in the greatest unit that divides every cost, so that a bound can be rounded up.
        """
        indexed, unit = self.indexed, self.cost_unit
        terms: list[mathopt.LinearTypes] = []
        for (tensor, _), spilled in self.actions.spilled.items():
            terms.append(indexed.store_costs[tensor] // unit * spilled)
        for (tensor, _), retrieved in self.actions.retrieved.items():
            terms.append(indexed.load_costs[tensor] // unit * retrieved)
        sources = (t for t in self._tensors if indexed.producer[t] < 0 and indexed.reader_lists[t])
        terms.extend(-(indexed.load_costs[tensor] // unit) for tensor in sources)
        self.model.minimize(self.total(terms))


class PeakModel(ActionModel):
    """Adds Eqs. 13 to 15: no spills, and the least of the greatest sum of resident bytes."""

    def __init__(self, indexed: IndexedProblem, windows: Windows, run: Run) -> None:
        super().__init__(indexed, windows, run, spilling=False)
        self.size_unit = gcd(*indexed.sizes_bytes)
        units = sum(indexed.sizes_bytes) // self.size_unit
        self._peak = self.model.add_integer_variable(lb=0, ub=units, name="M_peak")
        self._nothing_returns()
        self._the_peak_is_at_least_what_is_resident()
        self.model.minimize(self._peak)

    def _nothing_returns(self) -> None:
        """S[a,t] = 0 and R[a,t] = 0 (Eq. 13), but for the one load of what DRAM had from the start."""
        by_tensor: dict[int, list[mathopt.Variable]] = {}
        for (tensor, _), retrieved in self.actions.retrieved.items():
            by_tensor.setdefault(tensor, []).append(retrieved)
        for terms in by_tensor.values():
            self._add(self.total(terms) <= 1)

    def _the_peak_is_at_least_what_is_resident(self) -> None:
        """The sum of (C[a,t] + P[a,t]) x Size(a) is at most M_peak (Eq. 14)."""
        sizes = self.indexed.sizes_bytes
        for step in self._steps:
            terms = [
                sizes[tensor] // self.size_unit * variable
                for tensor in self._tensors
                for variable in self.actions.resident(tensor, step)
            ]
            self._add(self.total(terms) <= self._peak)
