"""A randomly drawn node, and the table of drawing functions by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.defs import onnx_opset_version
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = Sequence[int]
OLDEST, NEWEST = 7, min(26, onnx_opset_version())
"""Opsets that models are drawn from: onnxruntime runs none above 26, and an older onnx defines fewer."""


@dataclass
class OneNode:
    """A randomly drawn node: its operands, some of them constants, and its attributes."""

    kind: str
    opset: int
    random: Random
    domain: str = ""
    inputs: list[str] = field(default_factory=list)
    fed: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return self.random.randint(low, high)

    def integers(self, count: int, low: int, high: int) -> list[int]:
        """Return `count` such integers."""
        return [self.integer(low, high) for _ in range(count)]

    def one_of(self, *choices: Any) -> Any:  # noqa: ANN401 (of any type)
        """Return one of several values."""
        return self.random.choice(choices)

    def chance(self, probability: float = 0.5) -> bool:
        """Return True with a probability."""
        return self.random.random() < probability

    def shape(self, low: int = 0, high: int = 4) -> list[int]:
        """Return a shape of `low` to `high` axes."""
        return self.integers(self.integer(low, high), 1, 6)

    def axes(self, rank: int, low: int = 0) -> list[int]:
        """Return distinct axes, some counted from the end, in any order."""
        chosen = self.random.sample(range(rank), self.integer(min(low, rank), rank))
        return [axis - rank if self.chance(0.4) else axis for axis in chosen]

    def axis(self, rank: int, *, negative: bool = True) -> int:
        """Return an axis, perhaps counted from the end."""
        return self.integer(-rank if negative else 0, rank - 1)

    def values(self, shape: Shape, dtype: Any = np.float32, high: int = 5) -> Array:  # noqa: ANN401 (numpy's)
        """Return an array of random values from 0 to `high`."""
        count = int(np.prod(shape, dtype=np.int64))
        listed = [self.random.random() * high for _ in range(count)]
        return np.array(listed).astype(dtype).reshape(tuple(shape))

    def feed(self, shape: Shape, dtype: Any = np.float32, high: int = 5) -> None:  # noqa: ANN401 (numpy's)
        """Add an operand that is a network input."""
        self.take(self.values(shape, dtype, high), constant=False)

    def weight(self, shape: Shape, dtype: Any = np.float32, high: int = 5) -> None:  # noqa: ANN401 (numpy's)
        """Add an operand that is a constant or a network input."""
        self.take(self.values(shape, dtype, high), constant=self.chance())

    def state(self, value: Any, dtype: Any = np.int64) -> None:  # noqa: ANN401 (what numpy takes)
        """Add a constant operand of this value."""
        self.take(np.array(value, dtype), constant=True)

    def take(self, array: Array, *, constant: bool) -> None:
        """Add an operand of this value."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        (self.constants if constant else self.fed)[name] = array

    def leave_out(self) -> None:
        """Add an optional operand that is absent."""
        self.inputs.append("")

    def set(self, **attributes: Any) -> None:  # noqa: ANN401 (of any type)
        """Add attributes, except those of value None."""
        self.attributes |= {name: value for name, value in attributes.items() if value is not None}

    def maybe(self, **attributes: Any) -> None:  # noqa: ANN401 (of any type)
        """Add each attribute or not."""
        self.set(**{name: value for name, value in attributes.items() if self.chance()})

    @property
    def written(self) -> list[str]:
        """Return the names of the outputs."""
        return [f"y{index}" for index in range(self.outputs)]

    def model(self) -> onnx.ModelProto:
        """Return the model; its outputs are declared without a shape."""
        node = make_node(self.kind, self.inputs, self.written, name="node", domain=self.domain, **self.attributes)
        inputs = [
            make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.fed.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.written]
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        opsets = [make_opsetid("", self.opset), *([make_opsetid(self.domain, 1)] if self.domain else [])]
        graph = make_graph([node], "one", inputs, outputs, constants)
        return make_model(graph, opset_imports=opsets, ir_version=8 if self.opset < 19 else 10)


Rule: TypeAlias = Callable[[OneNode], None]
RULES: dict[str, Rule] = {}
"""Drawing functions by kind, as `Conv` or `domain::Kind`."""


def draws(kinds: str) -> Callable[[Rule], Rule]:
    """Make a function draw nodes of these kinds."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds.split(), rule))
        return rule

    return register


def broadcast_pair(node: OneNode, high: int = 4) -> tuple[list[int], list[int]]:
    """Return two shapes that are broadcast to each other."""
    whole = node.shape(0, high)
    return part_of(node, whole), part_of(node, whole)


def part_of(node: OneNode, whole: Shape) -> list[int]:
    """Return a shape that is broadcast to `whole`, if another one is."""
    first = node.integer(0, len(whole)) if node.chance(0.4) else 0
    return [1 if node.chance(0.2) else size for size in whole[first:]]


def state_axes(node: OneNode, axes: list[int], as_input: int) -> None:
    """Add axes as an attribute, or as an operand from opset `as_input` on; none if there are none."""
    if not axes:
        return
    if node.opset >= as_input:
        node.state(axes)
    else:
        node.set(axes=axes)
