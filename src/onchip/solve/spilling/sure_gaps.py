"""A bound on what any plan of any order pays: what has to be absent over gaps that every order has.

One boolean for each sure gap says that all tensors of its line are absent while one of the gap's operators runs, one
row for each operator asks that what is awaited fits: of a family what is least in it, unless all its lines are absent.
Docs/search.md, *Bounds of any order*, has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np

from onchip.facts.bit_masks import bits, mask_of
from onchip.facts.indexed import IndexedProblem
from onchip.facts.precedence import Precedence
from onchip.facts.sure_gaps import SureGap
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

    def solve(self, run: Run) -> int:
        """Return the bound, in what transfers cost; 0 where all fits, or no time is left for CP-SAT."""
        if not self._rows or not cp_sat_is_within_reach(run):
            return 0
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        gaps_of_families = sorted({gaps for row in self._rows for gaps in row})
        absent = {gap: model.new_bool_var("") for gap in sorted({gap for gaps in gaps_of_families for gap in gaps})}
        none_there = {gaps: _all_of(model, [absent[gap] for gap in gaps]) for gaps in gaps_of_families}
        for row, left in self._rows.items():
            model.add(sum(self._units_of(gaps) * (1 - none_there[gaps]) for gaps in row) <= left)
        model.minimize(sum(self._costs(model, absent)))
        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2
        work = float("inf") if run.deadline.is_set else WORK

        def absences() -> list[int]:
            return [number for number, one in absent.items() if solver.boolean_value(one)]

        return solve_for_result(solver, model, run, METHOD, absences, work).lower_bound

    def _units_of(self, gaps: Iterable[int]) -> int:
        """Return the units of the least tensor of lines of one family."""
        return min(self._indexed.room.units[tensor] for gap in gaps for tensor in self._gaps[gap].tensors)

    def _rows_that_do_not_fit(self) -> dict[tuple[tuple[int, ...], ...], int]:
        """Return by the gaps of each family that an operator lies in the units left beside its operands."""
        indexed, room, count = self._indexed, self._indexed.room, self._indexed.operator_count
        most = room.capacity_units + (1 if room.may_end_short else 0)
        left = np.array([most - room.units_of_all(operands) for operands in indexed.operand_lists], dtype=np.int64)
        awaited = np.zeros(count, dtype=np.int64)
        for gaps in self._by_family(range(len(self._gaps))):
            operators = reduce(or_, (self._gaps[gap].operators for gap in gaps))
            awaited[flags_of(operators, count)] += self._units_of(gaps)
        does_not_fit = mask_of(int(operator) for operator in np.flatnonzero(awaited > left))
        gaps_of: dict[int, list[int]] = {}
        for number, gap in enumerate(self._gaps):
            for operator in bits(gap.operators & does_not_fit):
                gaps_of.setdefault(operator, []).append(number)
        rows: dict[tuple[tuple[int, ...], ...], int] = {}
        for operator, numbers in gaps_of.items():
            row, units_left = tuple(map(tuple, self._by_family(numbers))), max(0, int(left[operator]))
            rows[row] = min(units_left, rows.get(row, units_left))
        return rows

    def _by_family(self, numbers: Iterable[int]) -> Iterable[list[int]]:
        by_family: dict[int, list[int]] = {}
        for number in numbers:
            by_family.setdefault(self._gaps[number].family, []).append(number)
        return by_family.values()

    def _costs(self, model: cp_model.CpModel, absent: dict[int, cp_model.IntVar]) -> list[cp_model.LinearExprT]:
        """The loads of each family, and storing one of it once if ever a line is absent and DRAM has a copy of none."""
        indexed = self._indexed
        costs: list[cp_model.LinearExprT] = []
        for numbers in self._by_family(absent):
            tensors = {tensor for number in numbers for tensor in self._gaps[number].tensors}
            costs.append(min(indexed.load_costs[tensor] for tensor in tensors) * self._loads(model, absent, numbers))
            if not indexed.backed & mask_of(tensors):
                stored = absent[numbers[0]] if len(numbers) == 1 else model.new_bool_var("")
                for number in numbers if len(numbers) > 1 else ():
                    model.add_implication(absent[number], stored)
                costs.append(min(indexed.store_costs[tensor] for tensor in tensors) * stored)
        return costs

    def _loads(
        self, model: cp_model.CpModel, absent: dict[int, cp_model.IntVar], numbers: list[int]
    ) -> cp_model.LinearExprT:
        """How often one of a family is loaded: once more for each absence after the reader of the one before."""
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


def _all_of(model: cp_model.CpModel, said: list[cp_model.IntVar]) -> cp_model.IntVar:
    """Return a boolean that is true only if all of them are."""
    if len(said) == 1:
        return said[0]
    all_are = model.new_bool_var("")
    for one in said:
        model.add_implication(all_are, one)
    return all_are
