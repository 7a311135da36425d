"""A bound on what any plan of any order pays: what has to be absent over gaps that every order has.

One boolean for each sure gap says that its tensor is absent while one of the gap's operators runs, one row for each
operator asks that what is awaited fits. Docs/search.md, *Bounds of any order*, has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from onchip.facts.bit_masks import bits, mask_of
from onchip.facts.indexed import IndexedProblem
from onchip.facts.sure_gaps import Precedence, SureGap
from onchip.facts.sure_needs import flags_of
from onchip.solve.run.interruptible import cp_sat_is_within_reach, solve_for_result
from onchip.solve.run.limits import Run

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD: Final = "sure gaps"
WORK: Final = 10.0
"""Of CP-SAT, which counts about a second as 1, where there is no time limit."""


class SureGapsBound:
    """One scratchpad in which nothing is overwritten. Loads before, between and after the given gaps cost nothing."""

    def __init__(self, indexed: IndexedProblem, precedence: Precedence, gaps: Iterable[SureGap]) -> None:
        self._indexed = indexed
        self._precedence = precedence
        self._gaps = tuple(gaps)
        self._rows = self._rows_that_do_not_fit()

    @property
    def tensors(self) -> frozenset[int]:
        """The tensors of which some may have to be absent."""
        return frozenset(self._gaps[gap].tensor for row in self._rows for gap in row)

    def solve(self, run: Run) -> int:
        """Return the bound, in what transfers cost; 0 where all fits, or no time is left for CP-SAT."""
        if not self._rows or not cp_sat_is_within_reach(run):
            return 0
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        absent = {gap: model.new_bool_var("") for gap in sorted({gap for row in self._rows for gap in row})}
        units = self._indexed.room.units
        for row, left in self._rows.items():
            model.add(sum(units[self._gaps[gap].tensor] * (1 - absent[gap]) for gap in row) <= left)
        model.minimize(sum(self._costs(model, absent)))
        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2
        work = float("inf") if run.deadline.is_set else WORK

        def absences() -> list[int]:
            return [number for number, one in absent.items() if solver.boolean_value(one)]

        return solve_for_result(solver, model, run, METHOD, absences, work).lower_bound

    def _rows_that_do_not_fit(self) -> dict[tuple[int, ...], int]:
        """Return by the gaps that an operator lies in the units left beside what operators in all of these use."""
        indexed, room, count = self._indexed, self._indexed.room, self._indexed.operator_count
        most = room.capacity_units + (1 if room.may_end_short else 0)
        left = np.array([most - room.units_of_all(operands) for operands in indexed.operand_lists], dtype=np.int64)
        awaited = np.zeros(count, dtype=np.int64)
        for gap in self._gaps:
            awaited[flags_of(gap.operators, count)] += room.units[gap.tensor]
        does_not_fit = mask_of(int(operator) for operator in np.flatnonzero(awaited > left))
        gaps_of: dict[int, list[int]] = {}
        for number, gap in enumerate(self._gaps):
            for operator in bits(gap.operators & does_not_fit):
                gaps_of.setdefault(operator, []).append(number)
        rows: dict[tuple[int, ...], int] = {}
        for operator, numbers in gaps_of.items():
            row, units_left = tuple(numbers), max(0, int(left[operator]))
            rows[row] = min(units_left, rows.get(row, units_left))
        return rows

    def _costs(self, model: cp_model.CpModel, absent: dict[int, cp_model.IntVar]) -> list[cp_model.LinearExprT]:
        """The loads of each tensor, and storing it once if it is ever absent and DRAM has no copy."""
        indexed, by_tensor = self._indexed, dict[int, list[int]]()
        costs: list[cp_model.LinearExprT] = []
        for number in absent:
            by_tensor.setdefault(self._gaps[number].tensor, []).append(number)
        for tensor, numbers in by_tensor.items():
            costs.append(indexed.load_costs[tensor] * self._loads(model, absent, numbers))
            if not indexed.backed >> tensor & 1:
                stored = absent[numbers[0]] if len(numbers) == 1 else model.new_bool_var("")
                for number in numbers if len(numbers) > 1 else ():
                    model.add_implication(absent[number], stored)
                costs.append(indexed.store_costs[tensor] * stored)
        return costs

    def _loads(
        self, model: cp_model.CpModel, absent: dict[int, cp_model.IntVar], numbers: list[int]
    ) -> cp_model.LinearExprT:
        """How often a tensor is loaded: once more for each absence that lies after the reader of the one before."""
        if len(numbers) == 1:
            return absent[numbers[0]]
        gaps, precedence = [self._gaps[number] for number in numbers], self._precedence
        ends = mask_of(use for gap in gaps for mask in (gap.befores, gap.afters) for use in bits(mask))
        loads_until = {use: model.new_int_var(0, len(numbers), "") for use in bits(ends)}
        for use, loads in loads_until.items():
            for earlier in precedence.last_of(precedence.before[use] & ends):
                model.add(loads >= loads_until[earlier])
        for number, gap in zip(numbers, gaps, strict=True):
            for use in precedence.first_of(gap.afters):
                for earlier in precedence.last_of(gap.befores):
                    model.add(loads_until[use] >= loads_until[earlier] + absent[number])
        all_loads = model.new_int_var(0, len(numbers), "")
        for loads in loads_until.values():
            model.add(all_loads >= loads)
        return all_loads
