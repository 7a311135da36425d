"""Which share of a network's operations is covered how: by loop nests, or as data movement and element operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from onchip.ops.derive.layers_of import NetworkLayers


class Way(StrEnum):
    """What an operator is covered by: nests of loops that multiply and add, or movement of its data alone."""

    LOOP_NESTS = "loop nests"
    DATA_MOVEMENT = "data movement"


@dataclass(frozen=True, slots=True)
class MovedOperator:
    """An operator without a loop nest, and why it has none; it reads and writes each operand once, in DRAM.

    `operations` are its multiply-accumulates if it is a contraction, else one for each element. They cost nothing.
    """

    operator: str
    kind: str
    why: str
    operations: int
    energy_pj: float
    latency_cycles: int
    read_bits: int
    written_bits: int


@dataclass(frozen=True, slots=True)
class CoveredShare:
    """The operators that are covered in one way, and their operations (multiply-accumulates, or those of elements)."""

    way: Way
    operators: int
    operations: int
    share: float


def coverage(layers: NetworkLayers, moved: Sequence[MovedOperator]) -> tuple[CoveredShare, CoveredShare]:
    """Return the shares of both ways, which are 1 together; layers that are of no network are an operator each."""
    nests = len(layers.layers) if layers.graph is None else len(layers.graph.operators) - len(moved)
    operations = layers.macs, sum(one.operations for one in moved)
    whole = sum(operations)
    return (
        CoveredShare(Way.LOOP_NESTS, nests, operations[0], operations[0] / whole),
        CoveredShare(Way.DATA_MOVEMENT, len(moved), operations[1], operations[1] / whole),
    )
