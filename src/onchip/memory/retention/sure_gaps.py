"""A lower bound for all orders: CP-SAT decides which gaps between uses a tensor stays absent over.

One boolean for each gap says that all tensors of its line are absent while one of its operators runs. One row for each
operator says that the tensors live across it fit. Gaps of some orders only depend on which of two operators runs first,
a boolean for each pair. Docs/search.md, *Bounds of any order*, has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from onchip.bounds.retention.sure_gaps import PossibleGap, SureGap
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem, Precedence, bits, flags_of, mask_of, uses_of
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result
from onchip.search.strategy.start import of_one_worker

if TYPE_CHECKING:
    from ortools.sat.python import cp_model, cp_model_helper

    Said: TypeAlias = cp_model_helper.Literal | bool
    """True or false, or a literal of the model."""


Gap: TypeAlias = SureGap | PossibleGap


@dataclass
class _Loads:
    """Number of loads of a family until each of its uses, and of each tensor; and booleans for stores."""

    until: dict[int, cp_model.IntVar]
    of: dict[int, cp_model.IntVar]
    stored: dict[int, cp_model.IntVar] = field(default_factory=dict)


class GapModel:
    """Booleans say that the tensors of a gap are absent while one of its operators runs."""

    def __init__(self, indexed: IndexedProblem, precedence: Precedence) -> None:
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self._indexed = indexed
        self._precedence = precedence
        self._pairs = OrderPairs(self.model, precedence)
        self._absent: dict[Gap, cp_model.IntVar] = {}
        self._units_of: dict[tuple[Gap, ...], list[cp_model.LinearExprT]] = {}

    def what_is_awaited_fits(self, families: Sequence[Sequence[Gap]], units_left: int) -> None:
        """Require a resident tensor for each gap of an operator, unless the gap is absent, and that these fit."""
        units = [one for gaps in families for one in self._units_there(tuple(gaps))]
        self.model.add(sum(units) <= units_left)

    def minimize_costs(self) -> None:
        """Charge the loads of each family, and one store of each loaded tensor; no more rows may follow."""
        families: dict[int, list[Gap]] = {}
        for gap in self._absent:
            families.setdefault(gap.family, []).append(gap)
        costs = [cost for gaps in families.values() for cost in self._costs(gaps)]
        self._pairs.link()
        self.model.minimize(sum(costs))

    # Rows

    def _absence(self, gap: Gap) -> cp_model.IntVar:
        if gap not in self._absent:
            self._absent[gap] = self.model.new_bool_var("")
        return self._absent[gap]

    def _units_there(self, gaps: tuple[Gap, ...]) -> list[cp_model.LinearExprT]:
        """Return the resident units of one family, shared by all operators that are in exactly these gaps."""
        if gaps not in self._units_of:
            self._units_of[gaps] = self._new_units_there(gaps)
        return self._units_of[gaps]

    def _new_units_there(self, gaps: tuple[Gap, ...]) -> list[cp_model.LinearExprT]:
        units = self._indexed.room.units
        if len(gaps) == 1 and isinstance(gaps[0], SureGap):
            return [min(units[tensor] for tensor in gaps[0].tensors) * self._absence(gaps[0]).negated()]
        there = {tensor: self.model.new_bool_var("") for tensor in sorted({one for gap in gaps for one in gap.tensors})}
        for gap in gaps:
            said = [self._absence(gap), *(there[tensor] for tensor in gap.tensors)]
            if isinstance(gap, SureGap):
                self.model.add_bool_or(said)
            else:
                self._where_it_is_one(gap, said)
        return [units[tensor] * one for tensor, one in there.items()]

    def _where_it_is_one(self, gap: PossibleGap, said: Sequence[cp_model.LiteralT]) -> None:
        """Require a true literal in orders in which the tensor is used before the operator and read later."""
        begun_late = [negated(self._pairs.is_before(begin, gap.operator)) for begin in gap.begins] or [False]
        for late in begun_late:
            for reader in gap.readers:
                self.model.add_bool_or([*said, late, self._pairs.is_before(reader, gap.operator)])

    # Costs

    def _costs(self, gaps: Sequence[Gap]) -> list[cp_model.LinearExprT]:
        indexed = self._indexed
        tensors = sorted({tensor for gap in gaps for tensor in gap.tensors})
        if len(gaps) == 1:
            cost = min(indexed.load_costs[tensor] for tensor in tensors)
            if not indexed.backed & mask_of(tensors):
                cost += min(indexed.store_costs[tensor] for tensor in tensors)
            return [cost * self._absent[gaps[0]]]
        loads = self._loads(tensors, len(gaps))
        for gap in gaps:
            self._is_loaded_after(gap, loads)
            self._is_stored(gap, loads)
        for until in loads.until.values():
            self.model.add(sum(loads.of.values()) >= until)
        costs: list[cp_model.LinearExprT] = [indexed.load_costs[one] * often for one, often in loads.of.items()]
        return [*costs, *(indexed.store_costs[one] * stored for one, stored in loads.stored.items())]

    def _loads(self, tensors: Sequence[int], most: int) -> _Loads:
        uses = mask_of(use for tensor in tensors for use in uses_of(self._indexed, tensor))
        until = {use: self.model.new_int_var(0, most, "") for use in bits(uses)}
        for use, loads in until.items():
            for earlier in self._precedence.last_of(self._precedence.before[use] & uses):
                self.model.add(loads >= until[earlier])
            for other, others in until.items():
                is_later = self._pairs.if_known(other, use)
                if is_later is not None and not isinstance(is_later, bool):
                    self.model.add(loads >= others).only_enforce_if(is_later)
        return _Loads(until, {tensor: self.model.new_int_var(0, most, "") for tensor in tensors})

    def _is_stored(self, gap: Gap, loads: _Loads) -> None:
        tensors = gap.tensors
        if not self._indexed.backed & mask_of(tensors):
            for tensor in tensors:
                if tensor not in loads.stored:
                    loads.stored[tensor] = self.model.new_bool_var("")
            self.model.add_bool_or([self._absent[gap].negated(), *(loads.stored[tensor] for tensor in tensors)])

    def _is_loaded_after(self, gap: Gap, loads: _Loads) -> None:
        """Once more until each reader after the gap than until any use before."""
        absent = self._absent[gap]
        self.model.add(sum(loads.of[tensor] for tensor in gap.tensors) >= absent)
        if isinstance(gap, SureGap):
            for reader in self._precedence.first_of(gap.afters):
                for earlier in self._precedence.last_of(gap.befores & mask_of(loads.until)):
                    self.model.add(loads.until[reader] >= loads.until[earlier] + absent)
            return
        earliers = self._uses_before(gap, loads)
        for reader in gap.readers:
            is_later = self._pairs.is_before(gap.operator, reader)
            for earlier, said in earliers:
                enforced = [absent, *(one for one in (is_later, said) if not isinstance(one, bool))]
                self.model.add(loads.until[reader] >= loads.until[earlier] + 1).only_enforce_if(enforced)

    def _uses_before(self, gap: PossibleGap, loads: _Loads) -> list[tuple[int, cp_model.LiteralT]]:
        """Return uses no later than the operator: each with its literal, or True if this holds in every order."""
        uses, operator = mask_of(loads.until), gap.operator
        sure = uses & (self._precedence.before[operator] | 1 << operator)
        if len(gap.begins) == 1:
            sure |= 1 << gap.begins[0]
        said: list[tuple[int, cp_model.LiteralT]] = [(use, True) for use in self._precedence.last_of(sure)]
        for use in bits(uses & ~sure):
            is_before = self._pairs.if_known(use, operator)
            if is_before is not None and is_before is not False:
                said.append((use, is_before))
        return said


class OrderPairs:
    """Booleans for pairs of operators; with `link` they are those of an order."""

    def __init__(self, model: cp_model.CpModel, precedence: Precedence) -> None:
        self._model = model
        self._precedence = precedence
        self._firsts: dict[tuple[int, int], cp_model.IntVar] = {}

    def is_before(self, earlier: int, later: int) -> Said:
        """Return whether one operator runs before the other, as a new boolean for a new pair."""
        known = self.if_known(earlier, later)
        if known is not None:
            return known
        pair = (min(earlier, later), max(earlier, later))
        self._firsts[pair] = self._model.new_bool_var("")
        return self._firsts[pair] if earlier < later else self._firsts[pair].negated()

    def if_known(self, earlier: int, later: int) -> Said | None:
        """Say whether one of two operators runs before the other, None of a pair that nothing depends on."""
        if self._precedence.before[later] >> earlier & 1:
            return True
        if earlier == later or self._precedence.before[earlier] >> later & 1:
            return False
        first = self._firsts.get((min(earlier, later), max(earlier, later)))
        if first is None:
            return None
        return first if earlier < later else first.negated()

    def link(self) -> None:
        """Make the relation transitive: predecessors of an earlier operator are earlier, and three form no cycle."""
        partners: dict[int, int] = {}
        for one, other in self._firsts:
            partners[one] = partners.get(one, 0) | 1 << other
            partners[other] = partners.get(other, 0) | 1 << one
        for operator, others in partners.items():
            for other in bits(others):
                for earlier in self._precedence.last_of(self._precedence.before[other] & others):
                    self._model.add_implication(self.is_before(other, operator), self.is_before(earlier, operator))
                third = partners[other] & others & ~mask_of(range(operator + 1)) & ~mask_of(range(other + 1))
                if other > operator:
                    for last in bits(third):
                        self._no_circle(operator, other, last)

    def _no_circle(self, *three: int) -> None:
        first, second, third = three
        circle = [self.is_before(first, second), self.is_before(second, third), self.is_before(third, first)]
        self._model.add_bool_or([negated(one) for one in circle])
        self._model.add_bool_or(circle)


def negated(said: Said) -> Said:
    """Return the negation of a literal or constant."""
    return not said if isinstance(said, bool) else said.negated()


METHOD: Final = "gaps of any order"
"""Of CP-SAT, which counts about a second as 1, where there is no time limit."""

Row: TypeAlias = tuple[tuple[Gap, ...], ...]
"""The gaps of each family that an operator is in."""


class SureGapsBound:
    """Bound for one scratchpad without overwriting. Loads before, between and after the given gaps cost nothing."""

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
        """Return the bound in units of transfer cost; 0 if everything fits, or no time is left for CP-SAT."""
        if not self._rows or not cp_sat_is_within_reach(run):
            return 0
        from ortools.sat.python import cp_model

        model = self._model()
        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2
        work = float("inf") if run.deadline.is_set else STEP.long_work
        return solve_for_result(solver, model.model, of_one_worker(run), METHOD, lambda: (), work).lower_bound

    def _model(self) -> GapModel:
        model = GapModel(self._indexed, self._precedence)
        for row, units_left in self._rows:
            model.what_is_awaited_fits(row, units_left)
        model.minimize_costs()
        return model

    def _rows_that_do_not_fit(self, sure: Sequence[SureGap], possible: Sequence[PossibleGap]) -> list[tuple[Row, int]]:
        """Return the gaps of each operator whose tensors may not fit together, with the units its operands leave.

        Operators with the same sure gaps share one row, with the least capacity.
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
        """Return the operators (a mask) whose gaps' smallest tensors, summed with repeats, exceed the units left."""
        units, count = self._indexed.room.units, len(units_left)
        awaited = np.zeros(count, dtype=np.int64)
        for gap in sure:
            awaited[flags_of(gap.operators, count)] += min(units[tensor] for tensor in gap.tensors)
        for one in possible:
            awaited[one.operator] += units[one.tensor]
        return mask_of(int(operator) for operator in np.flatnonzero(awaited > np.array(units_left, dtype=np.int64)))

    def _units_of_one_each(self, gaps: Iterable[Gap]) -> int:
        """Return the units of the smallest tensor of each gap, each tensor once: if they fit, none is absent."""
        units = self._indexed.room.units
        return sum(units[tensor] for tensor in {min(gap.tensors, key=units.__getitem__) for gap in gaps})


def _by_family(gaps: Iterable[Gap]) -> Row:
    by_family: dict[int, list[Gap]] = {}
    for gap in gaps:
        by_family.setdefault(gap.family, []).append(gap)
    return tuple(map(tuple, by_family.values()))
