"""The values of a model's constants: stated in the file, computed from others, or random instead."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype

from onchip.errors import GraphError
from onchip.formats.onnx.bare import own_weight
from onchip.formats.onnx.file import LARGEST_VALUE_ELEMENTS
from onchip.formats.onnx.program import Network
from onchip.formats.onnx.random import random_parameter
from onchip.formats.onnx.runtime import Array, Session, aligned


class ConstantValues:
    """Looks up, computes or makes up each constant once, when it is first asked for."""

    def __init__(self, network: Network, random_weights: int | None) -> None:
        self._network = network
        self._seed = random_weights
        self._arrays: dict[str, Array] = {}
        self._reader: dict[str, tuple[onnx.NodeProto, int]] = {}
        for node in network.nodes:
            if not any(network.storage.base(output) != output for output in node.output):  # a view is no reader
                for index, operand in enumerate(node.input):
                    self._reader.setdefault(network.storage.base(operand), (node, index))

    def array(self, name: str) -> Array:
        """The value of a constant that is kept as itself; raises InputError where it cannot be had."""
        if name not in self._arrays:
            made_up = None if self._seed is None else self._random(name, self._seed)
            array = self._own(name) if made_up is None else made_up
            self._arrays[name] = _aligned_array(array) if is_native(array.dtype) else array
        return self._arrays[name]

    def is_fed(self, name: str) -> bool:
        """Whether a constant is handed to a run instead of lying in its model: weights are not stored twice.

        Small ones may say a shape, and some kernels want to know those in advance; numpy's own types
        are the only ones that can be handed in.
        """
        dtype, shape = self.type_of(name)
        return is_native(dtype) and prod(shape) > LARGEST_VALUE_ELEMENTS

    def type_of(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Element type and shape of any tensor of the model."""
        shape, element_type = self._network.types.shape_and_element_type(name)
        return np.dtype(tensor_dtype_to_np_dtype(element_type)), shape

    def _random(self, name: str, seed: int) -> Array | None:
        dtype, shape = self.type_of(name)
        return random_parameter(name, dtype, shape, self._reader[name], seed) if name in self._reader else None

    def _own(self, name: str) -> Array:
        dtype, shape = self.type_of(name)
        bare = self._network.initializers.get(name)
        content = None if bare is None or not is_native(dtype) else own_weight(self._network.path, bare)
        if content is not None:  # large: not by way of a tensor, which would hold it once more
            return content.view(dtype).reshape(shape)
        stated = self._network.initializer(name)
        if stated is None:
            return self._computed(name)
        del self._network.initializers[name]
        return self._stated_array(stated, name)

    def _stated_array(self, stated: onnx.TensorProto, name: str) -> Array:
        try:
            return numpy_helper.to_array(stated)
        except Exception as error:  # onnx and numpy raise several types for damaged data
            what = f"its data do not make its shape {list(stated.dims)}: {' '.join(str(error).split())}"
            place = f"tensor {name!r}"
            raise GraphError(what, file=str(self._network.path), place=place, expected="whole data") from None

    def _computed(self, name: str) -> Array:
        """Run the nodes that make a constant from what the file states."""
        network = self._network
        nodes: dict[int, onnx.NodeProto] = {}
        leaves: dict[str, onnx.TensorProto] = {}
        waiting = [name]
        while waiting:
            wanted = waiting.pop()
            leaf = network.types.constants.known_value(wanted) or network.initializer(wanted)
            node = network.writer(wanted)
            if leaf is not None:
                leaves[wanted] = leaf
            elif node is None:
                what = "the value of this parameter is not a plain tensor"
                raise GraphError(
                    what,
                    file=str(network.path),
                    place=f"tensor {wanted!r}",
                    expected="an initializer or a constant node",
                )
            elif id(node) not in nodes:
                nodes[id(node)] = node
                waiting.extend(filter(None, node.input))
        model = network.program(nodes.values(), (), (name,), tuple(leaves.values()))
        return Session(model.SerializeToString(), str(network.path), f"tensor {name!r}").run([name], {})[0]


def _aligned_array(array: Array) -> Array:
    return aligned(np.ascontiguousarray(array).reshape(-1).view(np.uint8), array.dtype, array.shape)


def is_native(dtype: np.dtype[Any]) -> bool:
    """Whether numpy itself knows the type; onnx keeps the others (4 bits, bfloat16) in types of ml_dtypes."""
    return dtype.kind in "biuf"
