"""The variables of the model of order, places and addresses: who runs when, where each tensor is and how it came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.model.lifetimes.bit_masks import bits
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.windows import Windows

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True)
class StepPlace:
    """A tensor in a scratchpad (by number) in a step."""

    tensor: int
    memory: int
    step: int

    @property
    def before(self) -> StepPlace:
        """The same in the step before."""
        return StepPlace(self.tensor, self.memory, self.step - 1)


class PlaceVariables:
    """Per operator and step `runs`; per place whether the tensor is `at` it, begins there and how."""

    def __init__(self, indexed: IndexedProblem) -> None:
        from ortools.sat.python import cp_model

        self._indexed = indexed
        self._model = cp_model.CpModel()
        self._steps = range(indexed.operator_count)
        self._windows = Windows.of(indexed)
        self._make_variables()

    def _make_variables(self) -> None:
        model, windows = self._model, self._windows
        self._runs = [
            {s: model.new_bool_var(f"runs_{o}_{s}") for s in window} for o, window in enumerate(windows.steps)
        ]
        self._places = [
            StepPlace(tensor, memory, step)
            for tensor, lifetime in enumerate(windows.lifetimes)
            for memory in self._memories_of(tensor)
            for step in lifetime
        ]
        self._at = {place: model.new_bool_var(f"at_{place}") for place in self._places}
        self._begins = {place: model.new_bool_var(f"begins_{place}") for place in self._places}
        self._loads = {place: model.new_bool_var(f"loads_{place}") for place in self._places}
        self._computed = {
            place: model.new_bool_var(f"computed_{place}")
            for place in self._places
            if self._indexed.written_in[place.tensor] >> place.memory & 1
            and place.step in self._runs_of_producer(place.tensor)
        }

    def _memories_of(self, tensor: int) -> tuple[int, ...]:
        """The scratchpads in which a tensor may be of use."""
        return tuple(bits(self._indexed.written_in[tensor] | self._indexed.read_in[tensor]))

    def _runs_of_producer(self, tensor: int) -> dict[int, cp_model.IntVar]:
        producer = self._indexed.producer[tensor]
        return self._runs[producer] if producer >= 0 else {}

    def _step_of(self, operator: int) -> cp_model.LinearExprT:
        return sum(step * runs for step, runs in self._runs[operator].items())
