"""An operator with its operands, from which the verifier derives loop nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region
from onchip.verify.schedule.nests import NestDerivation, Nests
from onchip.verify.schedule.windows import Shape


@dataclass(frozen=True)
class LoneOperator:
    """An operator that reads maps x0, x1, ... of 8 bits and parameters w0, w1, ... of 4, and writes y of 16."""

    kind: str
    maps: Sequence[Shape | None]
    output: Shape
    weights: Sequence[Shape] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)

    def graph(self) -> Graph:
        """Return the network of this operator alone."""
        named = [(f"x{at}", shape, 8, Role.INPUT) for at, shape in enumerate(self.maps)]
        named += [(f"w{at}", shape, 4, Role.PARAMETER) for at, shape in enumerate(self.weights)]
        tensors = [Tensor(one[0], 9, one[3]) if one[1] is None else Tensor.of_shape(*one) for one in named]  # type: ignore[arg-type]
        maps, parameters = (tuple(one[0] for one in named if one[0][0] == letter) for letter in "xw")
        operator = Operator("f", self.kind, maps, ("y",), parameters, self.attributes)
        return Graph("one", (*tensors, Tensor.of_shape("y", self.output, 16, Role.OUTPUT)), (operator,))

    def nests(self, region: Region | None = None, partial_bits: int = 24) -> Nests | None:
        graph = self.graph()
        return NestDerivation(graph, partial_bits).of(graph.operators[0], region)


def reads(*operands: str) -> Layer:
    """Return a nest over these operands, the input first, with their bits."""
    bits = [{"x": 8, "w": 4}[name[0]] for name in operands]
    return Layer(input_bits=bits[0], weight_bits=bits[-1], output_bits=16, has_weight=len(operands) == 2)


def conv(maps: Shape, weight: Shape, output: Shape, **attributes: AttributeValue) -> LoneOperator:
    return LoneOperator("Conv", [maps], output, [weight], attributes)


def pool(maps: Shape, output: Shape, **attributes: AttributeValue) -> LoneOperator:
    return LoneOperator("MaxPool", [maps], output, (), attributes)
