"""Outputs in bytes of inputs, as variables of the model of order, places and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onchip.memory.retention.addressed_variables import PlaceVariables, StepPlace
from onchip.model.lifetimes.indexed import IndexedProblem, Overwritable

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class TieVariables(PlaceVariables):
    """`_offset` of each place; `_present` where a tensor is at it, and not within another; which inputs are `_tied`."""

    def __init__(self, indexed: IndexedProblem) -> None:
        super().__init__(indexed)
        self._offset = {place: self._offset_at(place) for place in self._places}
        self._present = dict(self._at)
        self._tied: dict[StepPlace, list[tuple[tuple[int, int], cp_model.IntVar]]] = {}
        self._inside: dict[StepPlace, list[cp_model.IntVar]] = {}
        for operator, inputs in enumerate(indexed.overwritable_lists):
            for step, runs in self._runs[operator].items() if inputs else ():
                self._overwrite(inputs, step, runs)
        for place, ties in self._inside.items():
            self._present[place] = self._model.new_bool_var(f"present_{place}")
            self._model.add(self._present[place] + sum(ties) == self._at[place])

    def _offset_at(self, place: StepPlace) -> cp_model.IntVar:
        view = self._indexed.views[place.memory]
        last = (view.memory.capacity_bytes - view.sizes_bytes[place.tensor]) // view.memory.alignment_bytes
        return self._model.new_int_var(0, last, f"offset_{place}")

    def _overwrite(self, inputs: tuple[Overwritable, ...], step: int, runs: cp_model.IntVar) -> None:
        """Any outputs lie in an input when their operator runs in this step, each in one of those of a group."""
        groups: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        for one in inputs:
            for written, shift_bytes in one.ties:
                tie = self._tie(StepPlace(one.tensor, 0, step), StepPlace(written, 0, step), shift_bytes)
                self._model.add_implication(tie, runs)
                groups.setdefault((one.group, written), []).append(tie)
                inside = written if written in one.inside else one.tensor
                self._inside.setdefault(StepPlace(inside, 0, step), []).append(tie)
        for ties in groups.values():
            self._model.add_at_most_one(ties)

    def _tie(self, lender: StepPlace, place: StepPlace, shift_bytes: int) -> cp_model.IntVar:
        """The input is there, the output lies in its bytes, and it leaves after the step."""
        model, tie = self._model, self._model.new_bool_var(f"tie_{lender}_{place}")
        model.add_implication(tie, self._at[lender])
        after = StepPlace(lender.tensor, 0, lender.step + 1)
        if after in self._at:
            model.add_bool_or(self._at[after].negated(), self._begins[after], tie.negated())
        shift = shift_bytes // self._indexed.memory.alignment_bytes
        model.add(self._offset[place] == self._offset[lender] + shift).only_enforce_if(tie)
        self._tied.setdefault(place, []).append(((lender.tensor, shift_bytes), tie))
        return tie
