"""A bound on what any plan of any order pays: what has to be absent over gaps that every order has, or this one.

One boolean for each gap says that all tensors of its line are absent while one of the gap's operators runs, one
row for each operator asks that what is awaited fits: something of each line that is not absent.
What is awaited in some orders only depends on which of two operators runs first: a boolean for each such pair.
Docs/search.md, *Bounds of any order*, has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from onchip.bounds.retention.possible_gaps import PossibleGap
from onchip.bounds.retention.sure_gaps import SureGap
from onchip.memory.effort import STEP
from onchip.model.lifetimes.bit_masks import bits, mask_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import Precedence
from onchip.model.lifetimes.sure_needs import flags_of
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result
from onchip.search.strategy.stage import of_one_worker

if TYPE_CHECKING:
    from onchip.memory.retention.gap_model import GapModel

METHOD: Final = "gaps of any order"
"""Of CP-SAT, which counts about a second as 1, where there is no time limit."""

Gap: TypeAlias = SureGap | PossibleGap
Row: TypeAlias = tuple[tuple[Gap, ...], ...]
"""The gaps of each family that an operator is in."""


class SureGapsBound:
    """One scratchpad in which nothing is overwritten. Loads before, between and after the given gaps cost nothing."""

    def __init__(
        self,
        indexed: IndexedProblem,
        precedence: Precedence,
        gaps: Iterable[SureGap],
        possible: Iterable[PossibleGap] = (),
    ) -> None:
        self._indexed = indexed
        self._precedence = precedence
        self._rows = self._rows_that_do_not_fit(tuple(gaps), tuple(possible))

    def solve(self, run: Run) -> int:
        """Return the bound, in what transfers cost; 0 where all fits, or no time is left for CP-SAT."""
        if not self._rows or not cp_sat_is_within_reach(run):
            return 0
        from ortools.sat.python import cp_model

        model = self._model()
        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2
        work = float("inf") if run.deadline.is_set else STEP.long_work
        return solve_for_result(solver, model.model, of_one_worker(run), METHOD, lambda: (), work).lower_bound

    def _model(self) -> GapModel:
        from onchip.memory.retention.gap_model import GapModel

        model = GapModel(self._indexed, self._precedence)
        for row, units_left in self._rows:
            model.what_is_awaited_fits(row, units_left)
        model.minimize_costs()
        return model

    def _rows_that_do_not_fit(self, sure: Sequence[SureGap], possible: Sequence[PossibleGap]) -> list[tuple[Row, int]]:
        """Return the gaps of each operator in which not all fits, with the units left beside its operands.

        What several operators say of the same sure gaps is said once, for the least room.
        """
        room = self._indexed.room
        most = room.capacity_units + (1 if room.may_end_short else 0)
        left = [max(0, most - room.units_of_all(operands)) for operands in self._indexed.operand_lists]
        does_not_fit = self._where_all_exceeds(left, sure, possible)
        gaps_of: dict[int, list[Gap]] = {}
        for gap in sure:
            for operator in bits(gap.operators & does_not_fit):
                gaps_of.setdefault(operator, []).append(gap)
        for one in possible:
            if does_not_fit >> one.operator & 1:
                gaps_of.setdefault(one.operator, []).append(one)
        rows: dict[Row, int] = {}
        for operator, gaps in gaps_of.items():
            if self._units_of_one_each(gaps) > left[operator]:
                row = _by_family(gaps)
                rows[row] = min(left[operator], rows.get(row, left[operator]))
        return list(rows.items())

    def _where_all_exceeds(
        self, units_left: Sequence[int], sure: Sequence[SureGap], possible: Sequence[PossibleGap]
    ) -> int:
        """Return the operators (a mask) beside which the least tensors of all their gaps, with repeats, do not fit."""
        units, count = self._indexed.room.units, len(units_left)
        awaited = np.zeros(count, dtype=np.int64)
        for gap in sure:
            awaited[flags_of(gap.operators, count)] += min(units[tensor] for tensor in gap.tensors)
        for one in possible:
            awaited[one.operator] += units[one.tensor]
        return mask_of(int(operator) for operator in np.flatnonzero(awaited > np.array(units_left, dtype=np.int64)))

    def _units_of_one_each(self, gaps: Iterable[Gap]) -> int:
        """Return the units of the least tensor of each gap, each tensor once: where they fit nothing is absent."""
        units = self._indexed.room.units
        return sum(units[tensor] for tensor in {min(gap.tensors, key=units.__getitem__) for gap in gaps})


def _by_family(gaps: Iterable[Gap]) -> Row:
    by_family: dict[int, list[Gap]] = {}
    for gap in gaps:
        by_family.setdefault(gap.family, []).append(gap)
    return tuple(map(tuple, by_family.values()))
