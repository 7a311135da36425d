"""The variables of the exact model of a plan, and expressions derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ortools.sat.python import cp_model

from onchip.answer.problem import Objective
from onchip.audits.facts import ProblemFacts
from onchip.audits.search import in_time
from onchip.ir.tensor import Role
from onchip.search.budget.clock import Deadline

Expression: TypeAlias = Any
"""A linear expression or a number; ortools has no common type for these."""


@dataclass(frozen=True, slots=True)
class MomentModel:
    """The variant of the model (see `onchip.audits.moments`); solutions cost less than `bound`."""

    bound: int
    with_addresses: bool
    transits: int = 0
    room_between: bool = True


@dataclass(frozen=True, slots=True)
class MomentPlace:
    """A tensor in a scratchpad at a moment, each by index."""

    tensor: int
    memory: int
    moment: int

    @property
    def before(self) -> MomentPlace:
        """Return the same place at the preceding moment."""
        return MomentPlace(self.tensor, self.memory, self.moment - 1)


class MomentsVariables:
    """Boolean variables for the possible events at each place and step, and an offset for each place.

    Raises OutOfTimeError if the deadline passes during construction.
    """

    def __init__(self, facts: ProblemFacts, shape: MomentModel, deadline: Deadline) -> None:
        self.model = cp_model.CpModel()
        self.facts = facts
        self.shape = shape
        self.deadline = deadline
        self.stride = shape.transits + 1
        self.steps = len(facts.operators)
        self.moments = self.steps * self.stride + shape.transits
        self.memories = facts.problem.memories
        self.links = facts.problem.transfers.links if facts.problem.objective is not Objective.PEAK else ()
        self.resident: dict[MomentPlace, cp_model.IntVar] = {}
        self.goes_on: dict[MomentPlace, cp_model.IntVar] = {}
        self.loaded: dict[MomentPlace, cp_model.IntVar] = {}
        self.written: dict[MomentPlace, cp_model.IntVar] = {}
        self.moved: dict[tuple[int, MomentPlace], cp_model.IntVar] = {}
        self.stored: dict[MomentPlace, cp_model.IntVar] = {}
        self.in_dram: dict[tuple[int, int], cp_model.IntVar] = {}
        self.offset_units: dict[MomentPlace, cp_model.IntVar] = {}
        self.done: dict[tuple[int, int], cp_model.IntVar] = {}
        self._variables()

    # Variables

    def _variables(self) -> None:
        for operator, positions in enumerate(self.facts.positions):
            for step in positions[:-1]:
                self.done[operator, step] = self.boolean()
        for tensor, uses in enumerate(self.facts.uses):
            in_time(self.deadline)
            if uses:
                self._variables_of(tensor)

    def _variables_of(self, tensor: int) -> None:
        one, moments = self.facts.tensors[tensor], self.life(tensor)
        for moment in range(moments.start, moments.stop + 1):
            if not self.facts.is_source(one):
                self.in_dram[tensor, moment] = self.boolean()
            for memory in self.memories_for(tensor):
                place = MomentPlace(tensor, memory, moment)
                if not self.facts.is_source(one) and moment > moments.start:
                    self.stored[place] = self.boolean()
                if moment < moments.stop:
                    self._variables_at(place)

    def _variables_at(self, place: MomentPlace) -> None:
        self.resident[place] = self.boolean()
        self.loaded[place] = self.boolean()
        if place.before in self.resident:
            self.goes_on[place] = self.boolean()
        names = [memory.name for memory in self.memories]
        for source in range(len(names)):
            if (names[source], names[place.memory]) in self.links and place.moment > self.life(place.tensor).start:
                self.moved[source, place] = self.boolean()
        producer = self.facts.producer[place.tensor]
        if producer is not None and self.step_of(place.moment) in self.facts.positions[producer]:
            writer = self.facts.operators[producer]
            if place.memory in self.facts.holders(writer, self.facts.tensors[place.tensor]):
                self.written[place] = self.boolean()
        if self.shape.with_addresses:
            memory = self.memories[place.memory]
            spare = memory.capacity_bytes - self.facts.tensors[place.tensor].size_bytes
            self.offset_units[place] = self.model.new_int_var(0, spare // memory.alignment_bytes, "")

    def life(self, tensor: int) -> range:
        """Return the moments at which residency of a tensor can be useful: up to its last use."""
        uses, positions = self.facts.uses[tensor], self.facts.positions
        first = min(positions[use].start for use in uses) * self.stride
        if self.facts.producer[tensor] is not None:
            first += self.shape.transits
        if self.links:
            is_output = self.facts.tensors[tensor].role is Role.OUTPUT
            start = 0 if self.facts.producer[tensor] is None else first
            return range(start, self.moments if is_output else self._last_use(tensor) + 1)
        return range(first, self._last_use(tensor) + 1)

    def _last_use(self, tensor: int) -> int:
        return self.moment_of(max(self.facts.positions[use].stop - 1 for use in self.facts.uses[tensor]))

    def memories_for(self, tensor: int) -> list[int]:
        """Return the indices of the scratchpads that are large enough for a tensor."""
        size_bytes = self.facts.tensors[tensor].size_bytes
        return [at for at, memory in enumerate(self.memories) if size_bytes <= memory.capacity_bytes]

    def boolean(self) -> cp_model.IntVar:
        """Return a new variable of the model."""
        return self.model.new_bool_var("")

    # Expressions

    def moment_of(self, step: int) -> int:
        """Return the moment in which the operator of a step runs."""
        return step * self.stride + self.shape.transits

    def step_of(self, moment: int) -> int | None:
        """Return the step whose operator runs at a moment; None between two steps."""
        step, between = divmod(moment, self.stride)
        return step if between == self.shape.transits and step < self.steps else None

    def is_done(self, operator: int, step: int) -> Expression:
        """Return an expression that is 1 if an operator runs in a step or has run before it."""
        positions = self.facts.positions[operator]
        if step < positions.start:
            return 0
        return 1 if step >= positions.stop - 1 else self.done[operator, step]

    def runs(self, operator: int, step: int) -> Expression:
        """Return an expression that is 1 if an operator runs in a step."""
        return self.is_done(operator, step) - self.is_done(operator, step - 1)

    def has_copy(self, tensor: int, moment: int) -> Expression:
        """Return an expression that is 1 if DRAM has a copy of a tensor before a moment."""
        if self.facts.is_source(self.facts.tensors[tensor]):
            return 1
        return self.in_dram.get((tensor, moment), 0)
