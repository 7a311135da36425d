"""The variables of the model with links: who runs when, what is where during each step, what is copied between two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.ir.tensor import Role
from onchip.memory.retention.addressed_variables import StepPlace
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.windows import Windows

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

IN_DRAM = -1


@dataclass(frozen=True, slots=True)
class PossibleCopy:
    """A copy of a tensor before a step, from one memory (by number, DRAM is -1) to another.

    The source is what was there during the step before, or, if it `is_passed_on`, what arrived before this step.
    """

    tensor: int
    step: int
    source: int
    target: int
    is_passed_on: bool = False

    @property
    def arrival(self) -> StepPlace:
        """What the copy fills: the tensor in the target."""
        return StepPlace(self.tensor, self.target, self.step)

    @property
    def origin(self) -> StepPlace:
        """What the copy reads: an arrival before the same step, or the tensor in the source during the step before."""
        return StepPlace(self.tensor, self.source, self.step if self.is_passed_on else self.step - 1)


class LinkedVariables:
    """Per operator and step `runs`; per place `at`, how it came to be that; per boundary before a step the copies.

    Boundary number `step` lies before that step; the last one lies behind the last step. A place that `arrives` in a
    boundary is a residency that begins there with a copy; it `remains` if it is there in the step. What `stays` is
    there in the step before too, in the same residency. `time` orders the copies within a boundary.
    """

    def __init__(self, indexed: IndexedProblem) -> None:
        from ortools.sat.python import cp_model

        self._indexed = indexed
        self._model = cp_model.CpModel()
        self._step_count = indexed.operator_count
        self._windows = Windows.of(indexed)
        self._tensors = [tensor for tensor, life in enumerate(self._windows.lifetimes) if life]
        self._horizon = 2 + len(self._tensors) * (len(indexed.views) + 1)
        self._make_places()
        self._make_copies()

    def _make_places(self) -> None:
        model, windows = self._model, self._windows
        self._runs = [
            {s: model.new_bool_var(f"runs_{o}_{s}") for s in window} for o, window in enumerate(windows.steps)
        ]
        places = [
            StepPlace(tensor, memory, step)
            for tensor in self._tensors
            for memory in self._memories_of(tensor)
            for step in self._life(tensor)
        ]
        self._at = {place: model.new_bool_var(f"at_{place}") for place in places}
        self._offset = {place: model.new_int_var(0, self._last_offset(place), f"offset_{place}") for place in places}
        self._stays = {place: model.new_bool_var(f"stays_{place}") for place in places if place.before in self._at}
        self._computed = {
            place: model.new_bool_var(f"computed_{place}")
            for place in places
            if self._indexed.written_in[place.tensor] >> place.memory & 1
            and place.step in self._runs_of_producer(place.tensor)
        }
        arrivals = [p for p in places if not self._is_computed(p.tensor) or p.before.step in self._life(p.tensor)]
        self._remains = {place: model.new_bool_var(f"remains_{place}") for place in arrivals}
        arrivals += [
            StepPlace(tensor, memory, self._step_count)
            for tensor in self._tensors
            if self._is_output(tensor)
            for memory in self._memories_of(tensor)
        ]
        self._arrives = {place: model.new_bool_var(f"arrives_{place}") for place in arrivals}
        self._time = {place: model.new_int_var(1, self._horizon, f"time_{place}") for place in arrivals}

    def _make_copies(self) -> None:
        model = self._model
        self._copies = {way: model.new_bool_var(f"copied_{way}") for way in self._ways()}
        self._into: dict[StepPlace, list[PossibleCopy]] = {}
        for way in self._copies:
            self._into.setdefault(way.arrival, []).append(way)
        self._stored = {place: model.new_bool_var("") for place in self._into if place.memory == IN_DRAM}
        self._time |= {place: model.new_int_var(1, self._horizon, "") for place in self._stored}

    def _ways(self) -> Iterator[PossibleCopy]:
        """Every copy that may be of use: over a link, out of DRAM, and into it of what the network computes."""
        links = self._indexed.links
        for place in self._arrives:
            yield PossibleCopy(place.tensor, place.step, IN_DRAM, place.memory)
            for source in (source for source, target in links if target == place.memory):
                yield from self._from(place.tensor, place.step, source, place.memory)
        for tensor in filter(self._is_computed, self._tensors):
            for step in range(self._life(tensor).start + 1, self._life(tensor).stop + 1):
                for memory in self._memories_of(tensor):
                    yield from self._from(tensor, step, memory, IN_DRAM)

    def _from(self, tensor: int, step: int, source: int, target: int) -> Iterator[PossibleCopy]:
        ways = (
            PossibleCopy(tensor, step, source, target),
            PossibleCopy(tensor, step, source, target, is_passed_on=True),
        )
        yield from (way for way in ways if way.origin in (self._arrives if way.is_passed_on else self._at))

    # What may be where

    def _life(self, tensor: int) -> range:
        """The steps in which it may be of use: from where it may exist, an output to the end."""
        producer, users = self._indexed.producer[tensor], self._windows.lifetimes[tensor]
        start = self._windows.steps[producer].start if producer >= 0 else 0
        return range(start, self._step_count if self._is_output(tensor) else users.stop)

    def _memories_of(self, tensor: int) -> list[int]:
        """The scratchpads into which it fits: it may wait where the array does not read it."""
        size = self._indexed.sizes_bytes[tensor]
        return [m for m, view in enumerate(self._indexed.views) if size <= view.memory.capacity_bytes]

    def _last_offset(self, place: StepPlace) -> int:
        memory = self._indexed.views[place.memory].memory
        return (memory.capacity_bytes - self._indexed.sizes_bytes[place.tensor]) // memory.alignment_bytes

    def _units(self, place: StepPlace) -> int:
        return self._indexed.views[place.memory].room.units[place.tensor]

    def _is_computed(self, tensor: int) -> bool:
        return self._indexed.producer[tensor] >= 0

    def _is_output(self, tensor: int) -> bool:
        return self._indexed.tensors[tensor].role is Role.OUTPUT

    def _runs_of_producer(self, tensor: int) -> dict[int, cp_model.IntVar]:
        return self._runs[self._indexed.producer[tensor]] if self._is_computed(tensor) else {}

    def _step_of(self, operator: int) -> cp_model.LinearExprT:
        return sum(step * runs for step, runs in self._runs[operator].items())

    def _befores(self) -> Iterator[tuple[int, int]]:
        """Yield (before, operator) for each predecessor of each operator."""
        for operator, befores in enumerate(self._indexed.predecessor_lists):
            for before in befores:
                yield before, operator
