"""The residencies of all scratchpads between two instructions, and those that the PE array can access."""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.verify.addresses import LiveResidency


class OnChip:
    """The residencies of every scratchpad, by tensor name."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.scratchpads = {memory.name: memory for memory in problem.memories}
        self._residencies: dict[str, dict[str, LiveResidency]] = {name: {} for name in self.scratchpads}

    def __getitem__(self, memory: str) -> dict[str, LiveResidency]:
        """Return the residencies of one scratchpad by tensor name, as a dict that the caller may change."""
        return self._residencies[memory]

    def __contains__(self, memory: str) -> bool:
        """Return True if a scratchpad has this name."""
        return memory in self._residencies

    def all(self) -> list[tuple[str, LiveResidency]]:
        """Return every residency with the name of its tensor."""
        return [one for held in self._residencies.values() for one in held.items()]

    def of(self, tensor: Tensor) -> dict[str, LiveResidency]:
        """Return the residencies of a tensor by the name of their scratchpad."""
        return {name: held[tensor.name] for name, held in self._residencies.items() if tensor.name in held}

    def held(self, operator: Operator, tensor: Tensor) -> list[LiveResidency]:
        """Return the tensor's residencies in scratchpads that may hold it as the operator's operand."""
        operand = self._problem.operand(operator, tensor)
        return [residency for name, residency in self.of(tensor).items() if operand in self.scratchpads[name].holds]

    def where_not_held(self, operator: Operator, tensor: Tensor) -> str:
        """Return text that names the tensor's scratchpads, and the scratchpads that may hold such an operand."""
        operand = self._problem.operand(operator, tensor)
        holding = [name for name, memory in self.scratchpads.items() if operand in memory.holds]
        where = ", ".join(f"{name!r} at {residency}" for name, residency in self.of(tensor).items())
        do = ", ".join(map(repr, holding)) or "none"
        return f" as {operand}, but it is only in {where}; scratchpads that hold {operand}s: {do}"
