"""A graph as it grows: each operator writes one tensor, sizes in elements, one size of an element for all."""

from __future__ import annotations

from dataclasses import dataclass, field

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator, StatedCost
from onchip.ir.tensor import Role, Tensor


@dataclass(slots=True)
class Wiring:
    """Operators in the order in which they were added, and the bytes of each tensor.

    Tensors that are `written_out`, and those without readers, are network outputs.
    """

    element_bytes: int = 2
    sizes_bytes: dict[str, int] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)
    written_out: set[str] = field(default_factory=set)

    def input(self, name: str, elements: int) -> str:
        """Add a network input; return its name."""
        self.sizes_bytes[name] = elements * self.element_bytes
        self.inputs.add(name)
        return name

    def add(self, kind: str, reads: tuple[str, ...], elements: int, name: str = "", cycles: int | None = None) -> str:
        """Add an operator that states these cycles; return the name of its output, which is also its own."""
        written = name or f"{kind.lower()}{len(self.operators)}"
        self.sizes_bytes[written] = elements * self.element_bytes
        self.operators.append(Operator(written, kind, reads, (written,), stated=StatedCost(cycles)))
        return written

    def elements(self, tensor: str) -> int:
        """Return how many elements a tensor has."""
        return self.sizes_bytes[tensor] // self.element_bytes

    def graph(self, name: str) -> Graph:
        """Return the network in its present state."""
        inner = {tensor for operator in self.operators for tensor in operator.inputs} - self.written_out

        def role(tensor: str) -> Role:
            if tensor in self.inputs:
                return Role.INPUT
            return Role.ACTIVATION if tensor in inner else Role.OUTPUT

        tensors = tuple(Tensor(one, size, role(one)) for one, size in self.sizes_bytes.items())
        return Graph(name, tensors, tuple(self.operators))
