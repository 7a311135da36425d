"""The tile graph of a schedule: the network as its stacks run it, band by band, with each operator's loop nests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ops.derive.operands import NestOperands


@dataclass(frozen=True, slots=True)
class TileOperator:
    """The origin of a tile operator: its stack (by number), its operator, and its loop nests in execution order.

    `operands` are the network's tensors that the nests read; None without nests.
    """

    stack: int
    operator: str
    nests: tuple[Layer, ...]
    operands: NestOperands | None = None


@dataclass(frozen=True, slots=True)
class TileGraph:
    """The graph that a program runs, with the origin of each operator of `graph`, by name.

    `not_counted` are parameters of the network that nothing in the graph reads: biases, and others that no loop nest
    multiplies.
    """

    graph: Graph
    operators: Mapping[str, TileOperator]
    not_counted: tuple[str, ...]

    @property
    def nests(self) -> Mapping[str, tuple[Layer, ...]]:
        """Map each operator to its loop nests."""
        return {name: one.nests for name, one in self.operators.items()}

    @property
    def nest_operands(self) -> Mapping[str, frozenset[str]]:
        """Map each operator with loop nests to the tensors that these read; the others that it reads cost nothing."""
        return {
            name: frozenset(filter(None, (one.operands.input, one.operands.weight)))
            for name, one in self.operators.items()
            if one.operands is not None
        }
