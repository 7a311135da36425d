"""`--method paper`: COSMA's formulation (arXiv 2311.18246), constraint by constraint.

Order, residencies and addresses are one mixed-integer program (Eqs. 1 to 12, with a given order 16 and 17).
`docs/paper.md` lists the differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, non_compulsory_cost
from onchip.memory.effort import STEP
from onchip.memory.spill.min_peak import with_order_settled
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem, Windows
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import MipOutcome, UnfinishedModelError, solve_mip

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

    Variables: TypeAlias = dict[tuple[int, int], mathopt.Variable]
    PairVariables: TypeAlias = dict[tuple[int, int, int], mathopt.Variable]


class ActionVariables:
    """C, P, S and R by (tensor, step).

    A tensor is created in a step of its producer; preserved, spilled or retrieved from the step after its earliest
    creation to its latest use. A tensor with a copy in DRAM (network inputs, parameters, written outputs) has no S.
    """

    def __init__(self, model: mathopt.Model, windows: Windows, run: Run) -> None:
        self.created: Variables = {}
        self.preserved: Variables = {}
        self.spilled: Variables = {}
        self.retrieved: Variables = {}
        indexed = windows.indexed
        for tensor, lifetime in enumerate(windows.lifetimes):
            if run.stop is not None:
                raise UnfinishedModelError
            producer = indexed.producer[tensor]
            if producer >= 0:
                for step in windows.steps[producer]:
                    self.created[tensor, step] = model.add_binary_variable(name=f"C_{tensor}_{step}")
            if not indexed.reader_lists[tensor]:
                continue
            later = lifetime[1:]
            for step in later:
                self.preserved[tensor, step] = model.add_binary_variable(name=f"P_{tensor}_{step}")
            if not indexed.backed >> tensor & 1:
                for step in later:
                    self.spilled[tensor, step] = model.add_binary_variable(name=f"S_{tensor}_{step}")
            for step in lifetime if producer < 0 else later:
                self.retrieved[tensor, step] = model.add_binary_variable(name=f"R_{tensor}_{step}")

    def resident(self, tensor: int, step: int) -> list[mathopt.Variable]:
        """Return the terms of res[a,t] = C[a,t] + P[a,t] + R[a,t]."""
        key = (tensor, step)
        return [v[key] for v in (self.created, self.preserved, self.retrieved) if key in v]


class AddressVariables:
    """L and V by (tensor, step), u and d by (tensor, tensor, step).

    Addresses are counted in the greatest unit that loses nothing: in a packing of lowest offsets every offset is a sum
    of sizes, so a multiple of their common divisor.
    """

    def __init__(self, model: mathopt.Model, windows: Windows, actions: ActionVariables, run: Run) -> None:
        indexed = windows.indexed
        self.unit_bytes, self.units, self.last = address_units(indexed)
        budget = indexed.memory.capacity_bytes // self.unit_bytes
        self.offset: Variables = {}
        self.stays: Variables = {}
        self.above: PairVariables = {}
        self.below: PairVariables = {}
        for tensor, lifetime in enumerate(windows.lifetimes):
            for step in lifetime:
                if actions.resident(tensor, step):
                    offset = model.add_integer_variable(lb=0, ub=budget, name=f"L_{tensor}_{step}")
                    self.offset[tensor, step] = offset
        for tensor, step in actions.preserved:
            self.stays[tensor, step] = model.add_binary_variable(name=f"V_{tensor}_{step}")
        for first in range(len(indexed.tensors)):
            if run.stop is not None:
                raise UnfinishedModelError
            for second in range(first):
                for step in windows.shared_steps(first, second):
                    if (first, step) in self.offset and (second, step) in self.offset:
                        key = (first, second, step)
                        self.above[key] = model.add_binary_variable(name=f"u_{first}_{second}_{step}")
                        self.below[key] = model.add_binary_variable(name=f"d_{first}_{second}_{step}")


def address_units(indexed: IndexedProblem) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the bytes of an address unit, and per tensor its size and its highest offset in them."""
    used = [tensor for tensor, producer in enumerate(indexed.producer) if producer >= 0 or indexed.reader_lists[tensor]]
    common = gcd(*(indexed.room.units[tensor] for tensor in used))
    unit_bytes = indexed.memory.alignment_bytes * common
    capacity = indexed.memory.capacity_bytes
    return (
        unit_bytes,
        tuple(-(-units // common) for units in indexed.room.units),
        tuple((capacity - size) // unit_bytes for size in indexed.sizes_bytes),
    )


def pair_steps(windows: Windows, most: int) -> int:
    """Count the steps over all pairs of tensors that may meet, which is how many u there are; stop above `most`."""
    count = 0
    for first in range(len(windows.users)):
        count += sum(len(windows.shared_steps(first, second)) for second in range(first))
        if count > most:
            break
    return count


class PaperModel:
    """Eqs. 1 to 8 on C, P, S and R, Eqs. 9 to 11 on L, V, u and d, and minimum non-compulsory traffic (Eq. 12).

    For a given order each window is one step (Eq. 16), and the traffic is that of Eq. 17. Raises UnfinishedModelError
    if the run has to stop before the model is written down.
    """

    def __init__(self, indexed: IndexedProblem, windows: Windows, run: Run) -> None:
        from ortools.math_opt.python import mathopt

        self._run = run
        self.model = mathopt.Model(name="COSMA")
        self.indexed = indexed
        self.windows = windows
        self.actions = ActionVariables(self.model, windows, run)
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
        self.addresses = AddressVariables(self.model, windows, self.actions, run)
        self._a_tensor_lies_within_the_budget()
        self._two_residents_do_not_overlap()
        self._a_preserved_tensor_keeps_its_address()
        self.cost_unit = gcd(*indexed.load_costs, *indexed.store_costs) or 1
        self._minimise_non_compulsory_traffic()

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

    def _a_tensor_lies_within_the_budget(self) -> None:
        """L[a,t] + Size(a) <= M_B (Eq. 9)."""
        for (tensor, _), offset in self.addresses.offset.items():
            self._add(offset <= self.addresses.last[tensor])

    def _two_residents_do_not_overlap(self) -> None:
        """Require that one of two residents ends at or below the other (Eq. 10), with the smallest sufficient M."""
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


METHOD = "paper"


def solve_as_paper(problem: Problem, run: Run) -> SearchResult[Plan]:
    """Solve the formulation; UNKNOWN if it is too large to be written down, or an operator writes only kept states.

    INFEASIBLE if a single operator does not fit.
    """
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    incumbent = PlanIncumbent(IndexedProblem.of(with_order_settled(problem, run)), run)
    if not all(incumbent.indexed.write_lists):
        return incumbent.result(METHOD)
    if _least_action_count(incumbent.indexed) > STEP.model_terms:
        incumbent.stopped_by = Stop.MEMORY_LIMIT
        return incumbent.result(METHOD)
    windows = Windows.of(incumbent.indexed)
    try:
        _solve(incumbent, windows)
    except UnfinishedModelError:
        incumbent.stopped_by = run.stop or Stop.TIME_LIMIT
    return incumbent.result(METHOD)


def _solve(incumbent: PlanIncumbent, windows: Windows) -> None:
    indexed, run = incumbent.indexed, incumbent.run
    if max(sum(map(len, windows.lifetimes)), pair_steps(windows, STEP.model_terms)) > STEP.model_terms:
        incumbent.stopped_by = Stop.MEMORY_LIMIT
        return
    paper = PaperModel(indexed, windows, run)
    outcome = solve_mip(paper.model, run)
    incumbent.stopped_by = outcome.stopped_by
    incumbent.raise_bound(outcome.lower_bound * paper.cost_unit)
    if outcome.values is not None:
        schedule, offsets = _extract(paper, outcome)
        incumbent.offer(schedule, offsets, non_compulsory_cost(indexed, schedule), "solved")


def _least_action_count(indexed: IndexedProblem) -> int:
    """Return a lower bound on the number of actions, which does not need the quadratic windows."""
    pairs = zip(indexed.producer, indexed.reader_lists, strict=True)
    return sum((producer >= 0) + (len(readers) > 0) for producer, readers in pairs)


def _extract(paper: PaperModel, outcome: MipOutcome) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Read the order and the residencies, each no longer than its uses.

    What the pairs of III-F leave out is a tensor that lingers after its last use, or is fetched
    before its first; here it does neither.
    """
    indexed, addresses = paper.indexed, paper.addresses
    order = _order(paper, outcome)
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step, operator in enumerate(order):
        for tensor in indexed.operand_lists[operator]:
            uses[tensor].append(step)
    placed: list[tuple[PlannedResidency, int]] = []
    for tensor, steps in enumerate(uses):
        starts = [
            step
            for step in paper.windows.lifetimes[tensor]
            if (retrieved := paper.actions.retrieved.get((tensor, step))) is not None and outcome.is_one(retrieved)
        ]
        stretches: dict[int, list[int]] = {}
        for step in steps:
            stretches.setdefault(sum(start <= step for start in starts), []).append(step)
        for stretch in stretches.values():
            offset = outcome.integer(addresses.offset[tensor, stretch[0]]) * addresses.unit_bytes
            placed.append((PlannedResidency(tensor, stretch[0], stretch[-1] + 1), offset))
    placed.sort(key=lambda pair: (pair[0].start, pair[0].tensor))
    return OperatorSchedule(order, tuple(residency for residency, _ in placed)), tuple(offset for _, offset in placed)


def _order(model: PaperModel, outcome: MipOutcome) -> tuple[int, ...]:
    first_outputs = [written[0] for written in model.indexed.write_lists]
    step_of = {
        model.indexed.producer[tensor]: step
        for (tensor, step), created in model.actions.created.items()
        if tensor == first_outputs[model.indexed.producer[tensor]] and outcome.is_one(created)
    }
    return tuple(sorted(step_of, key=lambda operator: step_of[operator]))
