"""Runs of operators in tiles, and the network that they form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.model.program.compute_cost import FilledOutputs
from onchip.ops.layers_of import PLAIN_BITS
from onchip.ops.nests import BandedOperand, operands_of
from onchip.transform.groups.tile_graph import TileGraph


@dataclass(frozen=True, slots=True)
class NestPlace:
    """A loop nest of the stack with this number, and the homes of its operands.

    If `weight_is_an_input`, the nest's weight is a second feature map, which is resident where inputs are.
    """

    stack: int
    layer: Layer
    homes: Homes
    weight_is_an_input: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A tile operator: its stack, loop nests and operands.

    With nests, the operands are input, optional weight and output. `declared_bytes` is the operator's own workspace.
    `filled_bits` are the bits of the output that no nest computes.
    """

    operator: str
    stack: int
    nests: tuple[Layer, ...]
    operands: tuple[BandedOperand, ...]
    declared_bytes: int = 0
    filled_bits: int = 0

    def filled(self, homes: Sequence[str | None], accelerator: Accelerator) -> FilledOutputs:
        """Return the outputs that no nest computes, where the operands have these homes."""
        return FilledOutputs.of(accelerator, self.filled_bits, homes[-1])

    def nest_places(self, homes: Sequence[str | None]) -> Iterator[NestPlace]:
        """Yield each loop nest with its operands at these homes; none for a step without nests."""
        if not self.nests:
            return
        first, *_, last = homes
        has_weight = len(self.operands) > 2
        is_input = has_weight and self.operands[1].operand is Operand.INPUT
        for layer in self.nests:
            weight = homes[1] if has_weight and layer.has_weight else None
            yield NestPlace(self.stack, layer, Homes(first, weight, last), is_input)


def step_of(tiles: TileGraph, operator: Operator) -> Step:
    """Return the step of a tile operator, with the operands of its loop nests."""
    origin = tiles.operators[operator.name]
    operands = operands_of(tiles.graph, operator)
    if origin.operands is None:
        return Step(operator.name, origin.stack, (), operands, operator.workspace_bytes)
    names = [origin.operands.input, *filter(None, [origin.operands.weight])]
    read = {one.tensor: one for one in operands if one.operand is not Operand.OUTPUT}
    written = [one for one in operands if one.operand is Operand.OUTPUT]
    of_nests = (*(read[name] for name in names), *written)
    filled_bits = _filled_bits(written[0], origin.nests)
    return Step(operator.name, origin.stack, origin.nests, of_nests, operator.workspace_bytes, filled_bits)


def _filled_bits(written: BandedOperand, nests: Sequence[Layer]) -> int:
    elements = sum(prod(band.shape or ()) for band in written.bands)
    computed = sum(layer.elements(Operand.OUTPUT) for layer in nests)
    return max(elements - computed, 0) * (written.bands[0].bits or PLAIN_BITS)


TensorInUse: TypeAlias = tuple[Tensor, int | None]
"""A tensor that a step reads or writes, and the number of the next step that reads it; None if none does."""


@dataclass(frozen=True, slots=True)
class TiledNetwork:
    """A tile graph in the order of a program: for each tile operator its step, its tile number, and the tensors in use.

    `steps_of_stack` holds the consecutive steps of each stack, by stack number.
    """

    graph: Graph
    steps: tuple[Step, ...]
    tile_numbers: tuple[int, ...]
    in_use: tuple[tuple[TensorInUse, ...], ...]
    steps_of_stack: tuple[range, ...]

    @classmethod
    def of(cls, tiles: TileGraph) -> TiledNetwork:
        """Return the steps of a tile graph, in its order."""
        steps = tuple(step_of(tiles, operator) for operator in tiles.graph.operators)
        numbers = (_tile_number(step.operator, tiles.operators[step.operator].operator) for step in steps)
        in_use = tuple(_in_use(tiles.graph))[::-1]
        return cls(tiles.graph, steps, tuple(numbers), in_use, tuple(_ranges([step.stack for step in steps])))

    def is_same_group(self, at: int, next_read: int) -> bool:
        """Return True if both steps belong to one group."""
        return self.steps[at].stack == self.steps[next_read].stack

    def is_soon(self, at: int, next_read: int) -> bool:
        """Return True if a later step is in the same tile of the same stack, or in the next tile."""
        is_same_stack = self.steps[at].stack == self.steps[next_read].stack
        return is_same_stack and self.tile_numbers[next_read] <= self.tile_numbers[at] + 1


def base_of(tensor: Tensor) -> str:
    """Return the name of the network tensor that a band belongs to; for any other tensor, its own name."""
    return tensor.part_of or tensor.name


def _in_use(graph: Graph) -> Iterator[tuple[TensorInUse, ...]]:
    """Yield the tensors that each step uses, the last step first."""
    next_read: dict[str, int] = {}
    for at in reversed(range(len(graph.operators))):
        operator = graph.operators[at]
        names = dict.fromkeys((*operator.reads, *operator.outputs))
        yield tuple([(graph.tensor[name], next_read.get(name)) for name in names])
        next_read |= dict.fromkeys(operator.reads, at)


def _ranges(stacks: Sequence[int]) -> Iterator[range]:
    """Yield the steps of each stack; `stacks` holds the stack of each step, in ascending order."""
    begin = 0
    for stack in range(stacks[-1] + 1 if stacks else 0):
        end = begin
        while end < len(stacks) and stacks[end] == stack:
            end += 1
        yield range(begin, end)
        begin = end


def _tile_number(name: str, original: str) -> int:
    """Return the tile number in a name like `conv1#12`, or `slice1#12.1` for a view.

    0 for an operator that is not tiled.
    """
    return 0 if name == original else int(name.removeprefix(f"{original}#").partition(".")[0])
