"""What each step of a program asks of the mapper: its nests, and where their operands are while they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from onchip.answer.program import Allocate, Compute, Free, Instruction
from onchip.answer.schedule import Homes
from onchip.arch.memory import MemoryLevel, Operand
from onchip.cost.schedule.compute_cost import OperandAtHome
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor


@dataclass(frozen=True, slots=True)
class NestPlace:
    """A loop nest of the stack so numbered, and where its operands are.

    With `weight_is_an_input` its weight is a second feature map, which lies where inputs do.
    """

    stack: int
    layer: Layer
    homes: Homes
    weight_is_an_input: bool


@dataclass(frozen=True, slots=True)
class OperandBands:
    """The bands of one operand of a step, and as what a memory has to hold them."""

    operand: Operand
    tensors: tuple[Tensor, ...]

    def at(self, home: str | None) -> OperandAtHome:
        """All its bits, and those of a row of its first band, at its home."""
        first = self.tensors[0]
        bits = sum(_bits(one) for one in self.tensors)
        row_bits = _bits(first) // prod(first.shape[:-1]) if first.shape else _bits(first)
        return OperandAtHome(self.operand, bits, row_bits, home)


@dataclass(frozen=True, slots=True)
class Step:
    """A tile operator: its stack, its nests, and its operands: of one with nests input, weight (if any) and output."""

    operator: str
    stack: int
    nests: tuple[Layer, ...]
    operands: tuple[OperandBands, ...]

    def nest_places(self, homes: Sequence[str | None]) -> Iterator[NestPlace]:
        """Each nest, where the operands have these homes."""
        first, *_, last = homes
        has_weight = len(self.operands) > 2
        is_input = has_weight and self.operands[1].operand is Operand.INPUT
        for layer in self.nests:
            weight = homes[1] if has_weight and layer.has_weight else None
            yield NestPlace(self.stack, layer, Homes(first, weight, last), is_input)


@dataclass(slots=True)
class Residents:
    """Replays residencies and says of each step where its operands have their homes; `levels` are addressed."""

    levels: Sequence[MemoryLevel]
    _resident: dict[str, set[str]] = field(default_factory=dict)

    def homes(self, instructions: Iterable[Instruction], steps: Mapping[str, Step]) -> Iterator[tuple[str | None, ...]]:
        """Of each Compute, in order, the homes of its operands."""
        for one in instructions:
            if isinstance(one, Allocate):
                self._resident.setdefault(one.tensor, set()).add(one.memory)
            elif isinstance(one, Free):
                self._resident[one.tensor].discard(one.memory)
            elif isinstance(one, Compute):
                yield tuple(self._home(operand) for operand in steps[one.operator].operands)

    def _home(self, bands: OperandBands) -> str | None:
        """The memory nearest the MACs that holds such operands and has all the bands."""
        holding = (level.memory.name for level in self.levels if bands.operand in level.memory.holds)
        has_all = (name for name in holding if all(name in self._resident.get(one.name, ()) for one in bands.tensors))
        return next(has_all, None)


def step_of(graph: Graph, operator: Operator, original: Operator, stack: int, nests: tuple[Layer, ...]) -> Step:
    """A tile operator of the tile graph `graph`; `original` is the network's operator of which it is a part."""
    read = {name: graph.tensor[name] for name in operator.inputs}
    operands = []
    for name in dict.fromkeys(original.inputs):
        bands = tuple(one for one in read.values() if name in (one.part_of, one.name))
        if bands:
            operands.append(OperandBands(Operand.INPUT, bands))
    if nests and len(original.inputs) > len(operands):  # both operands are the same feature map
        operands.append(operands[0])
    if nests and all(_is_element_by_element(layer) for layer in nests):
        operands.sort(key=lambda one: -sum(tensor.size_bytes for tensor in one.tensors))
    parameters = [OperandBands(Operand.WEIGHT, (graph.tensor[name],)) for name in operator.parameters]
    outputs = tuple(graph.tensor[name] for name in operator.outputs)
    groups = (
        [OperandBands(Operand.OUTPUT, outputs)] if nests else [OperandBands(Operand.OUTPUT, (one,)) for one in outputs]
    )
    return Step(operator.name, stack, nests, (*operands, *parameters, *groups))


def _is_element_by_element(layer: Layer) -> bool:
    return layer.k == layer.c == layer.r == layer.s == 1


def _bits(tensor: Tensor) -> int:
    if tensor.shape is None or tensor.bits is None:
        return tensor.size_bytes * 8
    return prod(tensor.shape) * tensor.bits
