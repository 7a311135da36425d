"""What sure and possible gaps cost at least, as a CP-SAT model: which are absent, and which of two operators is first.

Docs/search.md, *Bounds of any order*, has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ortools.sat.python import cp_model

from onchip.bounds.retention.possible_gaps import PossibleGap
from onchip.bounds.retention.sure_gaps import SureGap
from onchip.model.lifetimes.bit_masks import bits, mask_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import Precedence, uses_of

if TYPE_CHECKING:
    from ortools.sat.python import cp_model_helper

    Said: TypeAlias = cp_model_helper.Literal | bool
    """True or false, or a literal of the model."""

Gap: TypeAlias = SureGap | PossibleGap


@dataclass
class _Loads:
    """How often any of a family is loaded again until each of its uses, and each tensor in all; which are stored."""

    until: dict[int, cp_model.IntVar]
    of: dict[int, cp_model.IntVar]
    stored: dict[int, cp_model.IntVar] = field(default_factory=dict)


class GapModel:
    """Booleans say that the tensors of a gap are absent while one of its operators runs."""

    def __init__(self, indexed: IndexedProblem, precedence: Precedence) -> None:
        self.model = cp_model.CpModel()
        self._indexed = indexed
        self._precedence = precedence
        self._pairs = OrderPairs(self.model, precedence)
        self._absent: dict[Gap, cp_model.IntVar] = {}
        self._units_of: dict[tuple[Gap, ...], list[cp_model.LinearExprT]] = {}

    def what_is_awaited_fits(self, families: Sequence[Sequence[Gap]], units_left: int) -> None:
        """Of each gap that an operator is in something is there, unless it is absent; all that is there fits."""
        units = [one for gaps in families for one in self._units_there(tuple(gaps))]
        self.model.add(sum(units) <= units_left)

    def minimize_costs(self) -> None:
        """Charge loads of each family, and storing what is loaded, once; no more rows may follow."""
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
        """Return the units of what is there of one family: the same for all operators that are in just these gaps."""
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
        """One of some literals is true in orders in which the tensor is used before the operator and read later."""
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
        """Return uses that are no later than the operator, each with the literal that says so, or that it surely is."""
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
    """Booleans of a CP-SAT model, which are those of an order where what is `linked` holds."""

    def __init__(self, model: cp_model.CpModel, precedence: Precedence) -> None:
        self._model = model
        self._precedence = precedence
        self._firsts: dict[tuple[int, int], cp_model.IntVar] = {}

    def is_before(self, earlier: int, later: int) -> Said:
        """Say whether one of two operators runs before the other; of a pair not heard of that is a new boolean."""
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
        """Who runs before another, those surely before it do so too; three do not run in a circle."""
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
    """Return what is true where this is not."""
    return not said if isinstance(said, bool) else said.negated()
