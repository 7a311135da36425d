"""The operands of a tile operator. All its bands of one network tensor form one operand."""

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
"""Kinds that read at most one element of each operand per written element, such as the looked-up rows of a table."""
NOTHING_JOINED: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BandedOperand:
    """The distinct bands of one network tensor that an operator reads or writes.

    `operand` determines the possible home memories: those of weights for a parameter, those of inputs for other reads,
    and those of outputs for writes. `most_elements` is the maximum number of elements read, or None for all.
    """

    operand: Operand
    bands: tuple[Tensor, ...]
    most_elements: int | None = None
    joins: str | None = None
    """The concatenation that contains the bands, if any."""

    @property
    def tensor(self) -> str:
        """Name of the network tensor."""
        return self.joins or self.bands[0].part_of or self.bands[0].name

    @property
    def bits(self) -> int:
        """Number of moved bits: all bands in whole bytes, or only the elements read."""
        whole = sum(band.size_bytes for band in self.bands) * 8
        bits = self.bands[0].bits
        if self.most_elements is None or bits is None:
            return whole
        return min(whole, -(-self.most_elements * bits // 8) * 8)

    @property
    def row_bits(self) -> int:
        """Number of bits of a row (the last axis) of the first band, or of the whole band without a shape or axes."""
        first = self.bands[0]
        if first.shape is None or first.bits is None or not first.shape:
            return first.size_bytes * 8
        return first.shape[-1] * first.bits


def operands_of(graph: Graph, operator: Operator) -> tuple[BandedOperand, ...]:
    """Return the operands of an operator of a tile graph: first its reads, then its writes."""
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
