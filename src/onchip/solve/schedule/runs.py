"""What each step of a program asks of the mapper: its nests, where their operands are, how much room is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Free, Instruction
from onchip.answer.schedule import Homes
from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


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
class StepOperands:
    """The distinct tensors of a step's operands; `weights` are parameters, or a second feature map."""

    inputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def weight_is_an_input(self) -> bool:
        """Whether the weights are no parameters."""
        return any(one.role is not Role.PARAMETER for one in self.weights)


@dataclass(slots=True)
class HomesOfSteps:
    """Replays residencies and says where the operands of each step have their homes; `levels` are addressed."""

    graph: Graph
    levels: Sequence[MemoryLevel]
    _resident: dict[str, set[str]] = field(default_factory=dict)

    def homes(self, instructions: Iterable[Instruction], operands: Mapping[str, StepOperands]) -> Iterator[Homes]:
        """One for each Compute, in order."""
        for one in instructions:
            if isinstance(one, Allocate):
                self._resident.setdefault(one.tensor, set()).add(one.memory)
            elif isinstance(one, Free):
                self._resident[one.tensor].discard(one.memory)
            elif isinstance(one, Compute):
                yield self._homes(operands[one.operator])

    def home(self, tensors: Sequence[Tensor], operand: Operand) -> str | None:
        """The memory nearest the MACs that holds such operands and has all of the tensors."""
        holding = (level.memory.name for level in self.levels if operand in level.memory.holds)
        return next(
            (name for name in holding if all(name in self._resident.get(one.name, ()) for one in tensors)), None
        )

    def _homes(self, step: StepOperands) -> Homes:
        weight = Operand.INPUT if step.weight_is_an_input else Operand.WEIGHT
        return Homes(
            self.home(step.inputs, Operand.INPUT) if step.inputs else None,
            self.home(step.weights, weight) if step.weights else None,
            self.home(step.outputs, Operand.OUTPUT),
        )


def operands_of(graph: Graph, operator: Operator, original: Operator) -> StepOperands:
    """What a tile operator with a loop nest has as input, weight and output; `original` is that of the network."""
    read = tuple(graph.tensor[name] for name in dict.fromkeys(operator.inputs))
    first, *others = dict.fromkeys(original.inputs)
    is_alone = len(original.inputs) == 1 or not others
    inputs = read if is_alone else tuple(one for one in read if _base(one) == first)
    weights = tuple(graph.tensor[name] for name in operator.parameters)
    if len(original.inputs) > 1:
        weights = read if not others else tuple(one for one in read if _base(one) != first)
    return StepOperands(inputs, weights, tuple(graph.tensor[name] for name in operator.outputs))


def _base(tensor: Tensor) -> str:
    return tensor.part_of or tensor.name
