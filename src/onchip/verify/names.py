"""The tensors and memories that a plan names; unknown names are reported."""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.arch.memory import DRAM, Memory
from onchip.ir.tensor import Tensor
from onchip.verify.reporting import Reporting
from onchip.verify.rules import Rule


class Names:
    """The tensors and scratchpads that a plan of `problem` may name."""

    def __init__(self, problem: Problem, report: Reporting) -> None:
        self._problem = problem
        self._report = report
        self._scratchpads = {memory.name: memory for memory in problem.memories}
        self._counted = {tensor.name: tensor for tensor in problem.counted_tensors}

    def tensor(self, name: str) -> Tensor | None:
        """Return the tensor with that name, or report why the plan may not name it and return None."""
        tensor = self._counted.get(name)
        if tensor is None and name in self._problem.graph.tensor:
            self._report.once(Rule.UNCOUNTED_PARAMETER, name, "a parameter, and only activations count")
        elif tensor is None:
            self._report.once(Rule.UNKNOWN_TENSOR, name, "no tensor of the graph has this name")
        return tensor

    def scratchpad(self, tensor: str, memory: str) -> Memory | None:
        """Return the scratchpad with that name, or None after a report that the tensor has no address there."""
        if memory == DRAM:
            self._report.once(Rule.DRAM_ALLOCATED, tensor, "only scratchpads are allocated and freed, DRAM is not")
            self._report.excuse(tensor)
        elif self.is_memory(tensor, memory):
            return self._scratchpads[memory]
        return None

    def is_memory(self, tensor: str, memory: str) -> bool:
        """Return True if `memory` is DRAM or a scratchpad.

        Otherwise report it, and treat the tensor's location as unknown.
        """
        if memory != DRAM and memory not in self._scratchpads:
            known = ", ".join(map(repr, self._scratchpads))
            self._report.once(Rule.UNKNOWN_MEMORY, memory, f"no scratchpad has this name; there is {known}")
            self._report.excuse(tensor)
            return False
        return True
