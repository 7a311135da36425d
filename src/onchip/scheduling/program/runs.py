"""The steps of a program as input of the mapper: loop nests and their operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
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

    With nests, the operands are input, weight (if any) and output. `declared_bytes` is the operator's own workspace.
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
