"""Builds a chain of layers, or what branches off it, as a graph: each call adds operators and names the tensor written.

Convolutions and products have no bias; shapes are batch, channels, height, width. `same` padding is
that of TensorFlow: the output has ceil(size / stride) pixels, and an odd pad goes below and right. Other padding is
as given, `pad` zeros on each side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor

Shape = tuple[int, ...]


@dataclass
class Builder:
    """The graph so far; every element has `bits` bits."""

    bits: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)

    def input(self, name: str, shape: Shape) -> str:
        """A network input."""
        return self._tensor(name, shape, Role.INPUT)

    def parameter(self, name: str, shape: Shape) -> str:
        """A parameter, for operators that share it."""
        return self._tensor(name, shape, Role.PARAMETER)

    def convolution(
        self,
        name: str,
        source: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        *,
        same: bool,
        pad: int = 0,
        groups: int = 1,
    ) -> str:
        """A square kernel over all input channels of a group."""
        _, depth, *sizes = self.shape(source)
        outputs, begins, ends = zip(*(_window(size, kernel, stride, same, pad) for size in sizes), strict=True)
        weight = self.parameter(f"{name}.weight", (channels, depth // groups, kernel, kernel))
        attributes: dict[str, AttributeValue] = {
            "dilations": [1, 1],
            "group": groups,
            "kernel_shape": [kernel, kernel],
            "pads": [*begins, *ends],
            "strides": [stride, stride],
        }
        return self.operator(name, "Conv", (source,), (1, channels, *outputs), (weight,), attributes)

    def transposed_convolution(
        self, name: str, source: str, channels: int, kernel: int, stride: int, *, pad: int, more: int
    ) -> str:
        """A square kernel; `pad` pixels of the output are cut off on each side, `more` come back below and right."""
        _, depth, *sizes = self.shape(source)
        outputs = tuple((size - 1) * stride + kernel - 2 * pad + more for size in sizes)
        weight = self.parameter(f"{name}.weight", (depth, channels, kernel, kernel))
        attributes: dict[str, AttributeValue] = {
            "dilations": [1, 1],
            "group": 1,
            "kernel_shape": [kernel, kernel],
            "output_padding": [more, more],
            "pads": [pad] * 4,
            "strides": [stride, stride],
        }
        return self.operator(name, "ConvTranspose", (source,), (1, channels, *outputs), (weight,), attributes)

    def max_pool(self, name: str, source: str, kernel: int = 2, stride: int = 2, pad: int = 0) -> str:
        """As many channels as before."""
        _, channels, *sizes = self.shape(source)
        outputs = tuple(_window(size, kernel, stride, same=False, pad=pad)[0] for size in sizes)
        attributes: dict[str, AttributeValue] = {
            "ceil_mode": 0,
            "dilations": [1, 1],
            "kernel_shape": [kernel, kernel],
            "pads": [pad] * 4,
            "strides": [stride, stride],
        }
        return self.operator(name, "MaxPool", (source,), (1, channels, *outputs), (), attributes)

    def average_of_all(self, name: str, source: str) -> str:
        """One pixel a channel."""
        batch, channels, *_ = self.shape(source)
        return self.operator(name, "GlobalAveragePool", (source,), (batch, channels, 1, 1))

    def crop(self, name: str, source: str, start: int, pixels: int, step: int = 1) -> str:
        """Rows and columns `start`, `start + step`, ...: so many of each."""
        end = start + (pixels - 1) * step + 1
        attributes: dict[str, AttributeValue] = {
            "axes": [2, 3],
            "ends": [end, end],
            "starts": [start, start],
            "steps": [step, step],
        }
        return self.operator(name, "Slice", (source,), (*self.shape(source)[:2], pixels, pixels), (), attributes)

    def more_channels(self, name: str, source: str, channels: int) -> str:
        """Zeros behind the channels that are there."""
        batch, given, *sizes = self.shape(source)
        attributes: dict[str, AttributeValue] = {"pads": [0, 0, 0, 0, 0, channels - given, 0, 0]}
        return self.operator(name, "Pad", (source,), (batch, channels, *sizes), (), attributes)

    def batch_norm(self, name: str, source: str) -> str:
        """Four parameters of one element a channel."""
        channels = self.shape(source)[1]
        listed = ("weight", "bias", "running_mean", "running_var")
        parameters = tuple(self.parameter(f"{name}.{each}", (channels,)) for each in listed)
        return self.operator(name, "BatchNormalization", (source,), self.shape(source), parameters, {"epsilon": 1e-05})

    def fully_connected(self, name: str, source: str, columns: int) -> str:
        """All elements of `source` are one row, whatever its shape."""
        weight = self.parameter(f"{name}.weight", (columns, prod(self.shape(source))))
        return self.product(name, source, weight)

    def product(self, name: str, source: str, weight: str) -> str:
        """`source` times the transpose of `weight`."""
        return self.operator(name, "Gemm", (source,), (1, self.shape(weight)[0]), (weight,))

    def elementwise(self, name: str, kind: str, *sources: str) -> str:
        """An activation, or an operator on two tensors of one shape."""
        return self.operator(name, kind, sources, self.shape(sources[0]))

    def split(self, name: str, source: str, parts: int, shape: Shape, axis: int) -> tuple[str, ...]:
        """Equal parts, each read in `shape`."""
        outputs = tuple(self._tensor(f"{name}.{part}", shape, Role.ACTIVATION) for part in range(parts))
        self.operators.append(Operator(name, "Split", (source,), outputs, attributes={"axis": axis}))
        return outputs

    def operator(
        self,
        name: str,
        kind: str,
        sources: tuple[str, ...],
        shape: Shape,
        parameters: tuple[str, ...] = (),
        attributes: dict[str, AttributeValue] | None = None,
    ) -> str:
        """One operator with one output, which bears its name."""
        self._tensor(name, shape, Role.ACTIVATION)
        self.operators.append(Operator(name, kind, sources, (name,), parameters, attributes or {}))
        return name

    def shape(self, name: str) -> Shape:
        """That of a tensor made here."""
        return self.tensors[name].shape or ()

    def graph(self, name: str, output: str) -> Graph:
        """What was built, with one network output."""
        self.tensors[output] = replace(self.tensors[output], role=Role.OUTPUT)
        return Graph(name, tuple(self.tensors.values()), tuple(self.operators))

    def _tensor(self, name: str, shape: Shape, role: Role) -> str:
        if name in self.tensors:
            raise ValueError(f"two tensors are called {name!r}")
        self.tensors[name] = Tensor.of_shape(name, shape, self.bits, role)
        return name


def _window(size: int, kernel: int, stride: int, same: bool, pad: int = 0) -> tuple[int, int, int]:
    """Output pixels, and pads before and after."""
    if not same:
        return (size + 2 * pad - kernel) // stride + 1, pad, pad
    pixels = -(-size // stride)
    pad = max((pixels - 1) * stride + kernel - size, 0)
    return pixels, pad // 2, pad - pad // 2
