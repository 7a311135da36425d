"""Quantised networks in QDQ form: each map is quantised after its operator and dequantised before its readers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import make_node

from support.onnx_networks import model, value

CHANNELS, PIXELS = 4, 8


@dataclass
class QuantisedNetwork:
    """A builder of a network in QDQ form; every map is named by its tensor of integers."""

    seed: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    parameters: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.array = np.random.default_rng(self.seed)

    def constant(self, name: str, content: np.ndarray) -> str:
        self.parameters.append(numpy_helper.from_array(content, name))
        return name

    def scale(self, name: str) -> list[str]:
        """Return a separate scale and zero point."""
        scale = np.float32(self.chance.choice([0.02, 0.05, 0.1]))
        zero = np.int8(self.chance.randint(-4, 4))
        return [self.constant(f"{name}_scale", np.asarray(scale)), self.constant(f"{name}_zero", np.asarray(zero))]

    def quantised(self, name: str) -> str:
        """Quantise the floating-point map with this name."""
        self.nodes.append(make_node("QuantizeLinear", [name, *self.scale(name)], [f"{name}_q"], name=f"{name}_Q"))
        return f"{name}_q"

    def dequantised(self, map_name: str) -> str:
        """Dequantise a map, again for every reader, since files may repeat or share the dequantisation."""
        name = f"{map_name}_d{len(self.nodes)}"
        written = next(node for node in self.nodes if map_name in node.output)
        self.nodes.append(make_node("DequantizeLinear", [map_name, *written.input[1:]], [name], name=f"{name}_D"))
        return name

    def weight(self, name: str, *shape: int) -> str:
        """Return a constant that the file dequantises, with a scale per index of its first dimension."""
        content = self.array.integers(-100, 100, shape).astype(np.int8)
        scales = self.array.uniform(0.01, 0.03, shape[0]).astype(np.float32)
        stored = [
            self.constant(f"{name}_q", content),
            self.constant(f"{name}_s", scales),
            self.constant(f"{name}_z", np.zeros(shape[0], np.int8)),
        ]
        self.nodes.append(make_node("DequantizeLinear", stored, [name], name=f"{name}_D", axis=0))
        return name

    def convolution(self, name: str, source: str, *, then: str | None = None) -> str:
        """Add a convolution, with an optional activation before its quantisation."""
        operands = [self.dequantised(source), self.weight(f"{name}_w", CHANNELS, CHANNELS, 3, 3)]
        self.nodes.append(make_node("Conv", operands, [name], name=name, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        if then is None:
            return self.quantised(name)
        self.nodes.append(make_node(then, [name], [f"{name}_a"], name=f"{name}_{then}"))
        return self.quantised(f"{name}_a")

    def operator(self, kind: str, name: str, *sources: str, **attributes: list[int]) -> str:
        operands = [self.dequantised(source) for source in sources]
        self.nodes.append(make_node(kind, operands, [name], name=name, **attributes))  # type: ignore[arg-type]
        return self.quantised(name)

    def built(self, output: str) -> onnx.ModelProto:
        """Return the model, whose output is a dequantised map."""
        result = self.dequantised(output)
        source = value("x", [1, CHANNELS, PIXELS, PIXELS])
        return model(self.nodes, [source], [result], self.parameters)


def random_quantised(seed: int) -> onnx.ModelProto:
    """Return a network of three to seven operators, where some read the maps of two others."""
    network = QuantisedNetwork(seed)
    maps = [network.quantised("x")]
    for at in range(network.chance.randint(3, 7)):
        name, source, other = f"o{at}", network.chance.choice(maps[-2:]), network.chance.choice(maps)
        match network.chance.choice(["Conv", "Conv", "ConvRelu", "Add", "Mul", "MaxPool", "Sigmoid", "Again"]):
            case "Conv":
                maps.append(network.convolution(name, source))
            case "ConvRelu":
                maps.append(network.convolution(name, source, then="Relu"))
            case "MaxPool":
                shape = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
                maps.append(network.operator("MaxPool", name, source, **shape))
            case "Again":
                floating = network.dequantised(source)
                network.nodes.append(make_node("Identity", [floating], [name], name=name))
                maps.append(network.quantised(name))
            case "Sigmoid":
                maps.append(network.operator("Sigmoid", name, source))
            case kind:
                maps.append(network.operator(kind, name, source, other))
    return network.built(maps[-1])
