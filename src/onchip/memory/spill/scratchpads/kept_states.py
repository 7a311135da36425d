"""States that stay on the chip, each in a scratchpad: the problem that is left, and its plan with them put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import Memory
from onchip.ir.state import State
from onchip.model.capacity.bounds import StateLayout, compulsory_cost
from onchip.model.capacity.states import loaded_cost, order_of_kept_states, without_pairs_of_states


@dataclass(frozen=True)
class KeptStates:
    """A problem, and which of its states stay in which scratchpad (by name); all others are loaded and written."""

    problem: Problem
    memory_of: Mapping[State, str]

    @cached_property
    def moved_cost(self) -> int:
        """What loading and writing back the others costs."""
        return sum(loaded_cost(self.problem, one) for one in self.problem.graph.states if one not in self.memory_of)

    def objective_value(self, value_of_rest: int) -> int:
        """Return what an objective value, or a bound, of the rest makes of the whole."""
        if self.problem.objective is not Objective.PEAK:
            return self.moved_cost + self._dearer_cost + value_of_rest
        if not self.memory_of:
            return value_of_rest
        return self._layout_around(value_of_rest).arena_bytes(self._sizes(self.problem.memories[0]))

    @cached_property
    def _dearer_cost(self) -> int:
        """What compulsory transfers cost more where states fill the scratchpads that are cheapest for them."""
        if self.rest is None:
            return 0
        return compulsory_cost(self.rest) - compulsory_cost(replace(self.rest, memories=self.problem.memories))

    @cached_property
    def rest(self) -> Problem | None:
        """The problem without the states that stay; None where there is no room or no order left for it.

        Where states fill all scratchpads, nothing else may be planned; its scratchpads then stay as they are, unused.
        """
        graph, ordered = self.problem.graph, order_of_kept_states(self.problem, self.memory_of)
        layouts = [(memory, self._layouts[memory.name]) for memory in self.problem.memories]
        if any(layout.rest_bytes < 0 for _, layout in layouts) or not ordered:
            return None
        memories = tuple(
            replace(memory, capacity_bytes=layout.rest_bytes) for memory, layout in layouts if layout.rest_bytes
        )
        if not memories:
            names = {name for state in self.memory_of for name in (state.old, state.new)}
            operands = (tensor.name for operator in ordered for tensor in self.problem.operands(operator))
            if not names.issuperset(operands):
                return None
            memories = self.problem.memories
        names = {memory.name for memory in memories}
        links = tuple(link for link in self.problem.transfers.links if names.issuperset(link))
        operators = tuple(without_pairs_of_states(operator, self.memory_of) for operator in ordered)
        return replace(
            self.problem,
            graph=replace(graph, operators=operators, states=()),
            memories=memories,
            transfers=replace(self.problem.transfers, links=links),
            settled_states=tuple(self.memory_of),
        )

    def plan(self, rest: Plan) -> Plan:
        """Return a plan of the rest with the states that stay put back."""
        layouts = self._layouts
        if self.problem.objective is Objective.PEAK and self.memory_of:
            layouts = {self.problem.memories[0].name: self._layout_around(self._arena_bytes(rest))}
        return Plan(self.problem.memories, tuple(self._instructions(rest, layouts)))

    def _instructions(self, rest: Plan, layouts: Mapping[str, StateLayout]) -> Iterator[Instruction]:
        """What stays is there first; its next value takes its place when it is written, read until then or not."""
        graph = self.problem.graph
        offsets = {state: layouts[name].offsets_bytes[state.old] for state, name in self.memory_of.items()}
        for state, memory in self.memory_of.items():
            yield Allocate(state.old, memory, offsets[state], is_state=True)
        written_by: dict[str, list[State]] = {}
        for state in self.memory_of:
            written_by.setdefault(graph.producer[state.new].name, []).append(state)
        for instruction in rest.instructions:
            match instruction:
                case Allocate(tensor, memory, offset):
                    yield Allocate(tensor, memory, offset + layouts[memory].start_bytes)
                case Compute(name):
                    states = written_by.get(name, ())
                    read = [state for state in states if state.old in graph.operator[name].inputs]
                    for state in states:
                        if state not in read:
                            yield Free(state.old, self.memory_of[state])
                        yield Allocate(state.new, self.memory_of[state], offsets[state])
                    yield instruction
                    yield from (Free(state.old, self.memory_of[state]) for state in read)
                case Copy() | Free():
                    yield instruction

    @cached_property
    def _layouts(self) -> Mapping[str, StateLayout]:
        return {memory.name: StateLayout.of(self._sizes(memory), memory) for memory in self.problem.memories}

    def _layout_around(self, rest_bytes: int) -> StateLayout:
        memory = self.problem.memories[0]
        return StateLayout.of_least_arena(self._sizes(memory), memory.alignment_bytes, rest_bytes)

    def _arena_bytes(self, rest: Plan) -> int:
        graph = self.problem.graph
        places = (one for one in rest.instructions if isinstance(one, Allocate))
        return max((one.offset_bytes + graph.tensor[one.tensor].size_bytes for one in places), default=0)

    def _sizes(self, memory: Memory) -> dict[str, int]:
        tensor = self.problem.graph.tensor
        return {
            state.old: tensor[state.old].size_bytes for state, name in self.memory_of.items() if name == memory.name
        }
