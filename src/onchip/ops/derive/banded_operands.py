"""The operands of a tile operator: all bands that it lists of one tensor of the network are one operand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Final

from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor

LOOKUPS: Final = frozenset({"Gather", "GatherElements", "GATHER", "EMBEDDING_LOOKUP", "Slice"})
"""Kinds that read of each operand at most one element for each that they write: of a table, the rows looked up."""
NOTHING_JOINED: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BandedOperand:
    """What an operator reads, or writes, of one tensor of the network, each band once.

    `operand` says in which memories it can have its home: a parameter where weights are, what else is read where
    inputs are, what is written where outputs are. `most_elements` are as many as the operator reads, if not all.
    """

    operand: Operand
    bands: tuple[Tensor, ...]
    most_elements: int | None = None
    joins: str | None = None
    """The concatenation of which the bands are parts, if they are of one."""

    @property
    def tensor(self) -> str:
        """Return the tensor of the network, by name."""
        return self.joins or self.bands[0].part_of or self.bands[0].name

    @property
    def bits(self) -> int:
        """Return the bits that are moved: those of all bands, each in whole bytes, or of the elements that are read."""
        whole = sum(band.size_bytes for band in self.bands) * 8
        bits = self.bands[0].bits
        if self.most_elements is None or bits is None:
            return whole
        return min(whole, -(-self.most_elements * bits // 8) * 8)

    @property
    def row_bits(self) -> int:
        """Of the last axis of the first band; of all of a band without a shape, or without axes."""
        first = self.bands[0]
        if first.shape is None or first.bits is None or not first.shape:
            return first.size_bytes * 8
        return first.shape[-1] * first.bits


def operands_of(graph: Graph, operator: Operator) -> tuple[BandedOperand, ...]:
    """The operands of an operator of a tile graph: those that it reads, then those that it writes."""
    most = _elements_written(graph, operator) if operator.kind in LOOKUPS else None
    joined = {} if operator.tile is None else {one.part: one.whole for one in operator.tile.joined}
    read = _operands(graph, operator.reads, None, most, joined)
    return (*read, *_operands(graph, operator.outputs, Operand.OUTPUT))


def _elements_written(graph: Graph, operator: Operator) -> int | None:
    shapes = [graph.tensor[name].shape for name in operator.outputs]
    return None if None in shapes else sum(prod(shape) for shape in shapes if shape is not None)


def _operands(
    graph: Graph,
    names: tuple[str, ...],
    operand: Operand | None,
    most_elements: int | None = None,
    joined: Mapping[str, str] = NOTHING_JOINED,
) -> Iterator[BandedOperand]:
    bands: dict[tuple[Operand, str], dict[str, Tensor]] = {}
    for name in names:
        tensor = graph.tensor[name]
        kind = operand or (Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT)
        base = tensor.part_of or name
        bands.setdefault((kind, joined.get(base, base)), {})[name] = tensor
    wholes = set(joined.values())
    for (kind, base), found in bands.items():
        yield BandedOperand(kind, tuple(found.values()), most_elements, base if base in wholes else None)
