"""Which tensors stay over which idle stretches, for one order: a small exact model that can learn.

One boolean per gap between consecutive uses of a tensor, one row per step; conflicts over
addresses come back as cuts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from onchip.analysis.indexed import IndexedProblem, bits
from onchip.plan.result import Result, Status, Stop
from onchip.solve.compose import Residency, Schedule
from onchip.solve.interruptible import solve_interruptibly
from onchip.solve.limits import Run

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD = "kept gaps"


@dataclass(frozen=True, slots=True)
class Gap:
    """Between two consecutive uses of a tensor, at the steps `last_use` < `next_use`."""

    tensor: int
    last_use: int
    next_use: int

    def splits(self, residency: Residency) -> bool:
        """Whether leaving here would end one part of the residency and begin another within it."""
        return (
            self.tensor == residency.tensor and self.last_use + 1 < residency.stop and self.next_use > residency.start
        )


class KeptGaps:
    """Least non-compulsory cost for one order, under the conflicts learnt so far."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int]) -> None:
        from ortools.sat.python import cp_model

        self._indexed = indexed
        self._order = tuple(order)
        self._uses = _uses(indexed, order)
        self._gaps = [Gap(t, *pair) for t, uses in enumerate(self._uses) for pair in pairwise(uses)]
        self._model = cp_model.CpModel()
        self._leaves = {gap: self._model.new_bool_var(f"leaves_{i}") for i, gap in enumerate(self._gaps)}
        self._each_step_holds_its_operands_and_what_stays()
        self._minimise()

    # Constraints

    def _each_step_holds_its_operands_and_what_stays(self) -> None:
        room = self._indexed.room
        staying: list[list[Gap]] = [[] for _ in self._order]
        for gap in self._gaps:
            for step in range(gap.last_use + 1, gap.next_use):
                staying[step].append(gap)
        for step, operator in enumerate(self._order):
            operands = self._indexed.operands[operator]
            kept = sum(room.units[gap.tensor] * (1 - self._leaves[gap]) for gap in staying[step])
            self._model.add(
                room.units_of(operands) + kept <= room.capacity_units + self._one_more(operands, staying[step])
            )

    def _one_more(self, operands: int, staying: list[Gap]) -> cp_model.LinearExprT:
        """The last, partial unit of the capacity is there for a tensor that may end within it."""
        may_end_short = self._indexed.room.may_end_short
        if operands & may_end_short:
            return 1
        short = [gap for gap in staying if may_end_short >> gap.tensor & 1]
        if not short:
            return 0
        one_more = self._model.new_bool_var("")
        self._model.add(sum(1 - self._leaves[gap] for gap in short) >= one_more)
        return one_more

    def forbid(self, residencies: Iterable[Residency]) -> None:
        """These residencies together have no addresses: a tensor has to leave within one of them."""
        splits = [gap for residency in residencies for gap in self._gaps if gap.splits(residency)]
        self._model.add_bool_or(self._leaves[gap] for gap in splits)

    # Objective

    def _minimise(self) -> None:
        """The reload of each gap left, and one spill of each tensor that leaves at all (COSMA, Eq. 12)."""
        indexed = self._indexed
        terms = [indexed.load_costs[gap.tensor] * leaves for gap, leaves in self._leaves.items()]
        for tensor in bits(((1 << len(indexed.tensors)) - 1) & ~indexed.backed):
            spilled = self._model.new_bool_var(f"spilled_{tensor}")
            terms.append(indexed.store_costs[tensor] * spilled)
            for before, after in pairwise(self._uses[tensor]):
                self._model.add_implication(self._leaves[Gap(tensor, before, after)], spilled)
        self._model.minimize(sum(terms))

    # Extract

    def solve(self, run: Run) -> Result[Schedule]:
        """Return a schedule of least cost; INFEASIBLE if the conflicts leave none."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        status = solve_interruptibly(solver, self._model, run)
        if status == cp_model.INFEASIBLE:
            return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
        if status == cp_model.UNKNOWN:
            return Result(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
        left = {gap for gap, leaves in self._leaves.items() if solver.boolean_value(leaves)}
        known = Status.OPTIMAL if status == cp_model.OPTIMAL else Status.FEASIBLE
        bound = round(solver.best_objective_bound)
        return Result(known, self._schedule(left), round(solver.objective_value), bound, run.seconds, METHOD)

    def _schedule(self, left: set[Gap]) -> Schedule:
        residencies: list[Residency] = []
        for tensor, uses in enumerate(self._uses):
            starts = (
                [uses[0], *(after for before, after in pairwise(uses) if Gap(tensor, before, after) in left)]
                if uses
                else []
            )
            for start, following in pairwise([*starts, len(self._order)]):
                last = uses[bisect_right(uses, following - 1) - 1]
                residencies.append(Residency(tensor, start, last + 1))
        return Schedule(self._order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))


def _uses(indexed: IndexedProblem, order: Sequence[int]) -> list[list[int]]:
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step, operator in enumerate(order):
        for tensor in indexed.operand_lists[operator]:
            uses[tensor].append(step)
    return uses
