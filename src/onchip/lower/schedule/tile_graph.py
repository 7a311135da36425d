"""The tile graph of a schedule: the network as its stacks run it, band by band, with each operator's loop nests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.lower.layers.operands import NestOperands


@dataclass(frozen=True, slots=True)
class TileOperator:
    """Of which operator of which stack (by number) it is a tile, or all; `nests` run one after the other.

    `operands` are the network's tensors that the nests read; None where there are no nests.
    """

    stack: int
    operator: str
    nests: tuple[Layer, ...]
    operands: NestOperands | None = None


@dataclass(frozen=True, slots=True)
class TileGraph:
    """What a program runs, with a tile operator for each operator of `graph`, by name.

    `not_counted` are the network's parameters that nothing in it reads: biases, and what else no loop nest multiplies.
    """

    graph: Graph
    operators: Mapping[str, TileOperator]
    not_counted: tuple[str, ...]
