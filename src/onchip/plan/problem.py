"""The question: a graph, the scratchpads it is planned for, and what is to be least."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


class Objective(StrEnum):
    """What is least: non-compulsory traffic (COSMA, Eq. 12), or the arena of a plan without spills."""

    TRAFFIC = "traffic"
    PEAK = "peak"


class Order(StrEnum):
    """Which orders of the operators are allowed: any, the graph's own, or one of least peak."""

    FREE = "free"
    GIVEN = "given"
    MIN_PEAK = "min-peak"


class Count(StrEnum):
    """Which tensors are planned: all but parameters, or all."""

    ACTIVATIONS = "activations"
    ALL = "all"


@dataclass(frozen=True)
class Problem:
    """One planning problem."""

    graph: Graph
    memories: tuple[Memory, ...]
    objective: Objective = Objective.TRAFFIC
    order: Order = Order.FREE
    count: Count = Count.ACTIVATIONS

    def __post_init__(self) -> None:
        if not self.memories:
            raise UsageError("there is no scratchpad to plan", expected="at least one memory")

    def counts(self, tensor: Tensor) -> bool:
        """Whether the tensor appears in the plan."""
        return self.count is Count.ALL or tensor.role is not Role.PARAMETER

    @property
    def counted_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that appear in the plan, in the graph's order."""
        return tuple(tensor for tensor in self.graph.tensors if self.counts(tensor))

    def operands(self, operator: Operator) -> tuple[Tensor, ...]:
        """The distinct counted tensors that must be resident while `operator` runs."""
        names = dict.fromkeys((*operator.reads, *operator.outputs))
        tensors = (self.graph.tensor[name] for name in names)
        return tuple(tensor for tensor in tensors if self.counts(tensor))

    def transfer_cost(self, tensor: Tensor, source: str, target: str) -> int:  # noqa: ARG002
        """What moving `tensor` from memory `source` to memory `target` costs: its bytes."""
        return tensor.size_bytes
