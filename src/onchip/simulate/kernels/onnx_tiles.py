"""Run tiles of an ONNX model's operators by the model's own nodes.

This is exact if a region of the output depends only on the operands of the tile.
"""

from __future__ import annotations

from collections.abc import Mapping

from onchip.formats.onnx.program import Array
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.transform.slices.bands import Bytes, bytes_of_region, bytes_put_together, place_of


class OnnxTileKernels:
    """Runs `graph`, the tiles of `whole`, with the operators of `kernels`."""

    name = OnnxKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: OnnxKernels) -> None:
        self._graph = graph
        self._whole = whole
        self._kernels = kernels

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return a parameter's bytes; of a band, its region."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.parameter(base), shape, place_of(tensor)[1])

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return a random array for the seed; a band is a region of it."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.network_input(base), shape, place_of(tensor)[1])

    def given_input(self, tensor: Tensor, array: Array) -> Bytes:
        """Return the bytes of a value handed in for the whole tensor; of a band, its region. Raises InputError."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.given_input(base, array), shape, place_of(tensor)[1])

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs; raises GraphError where onnxruntime does not know how."""
        tile = operator.tile
        if tile is None:
            return self._kernels.run(operator, operands)
        original = self._whole.operator[tile.operator]
        bands: dict[str, list[tuple[Tensor, Bytes]]] = {name: [] for name in original.inputs}
        for name, content in operands.items():
            tensor = tile.seen(self._graph.tensor[name])
            bands.setdefault(place_of(tensor)[0], []).append((tensor, content))
        given = {name: self._put_together(self._whole.tensor[name], each) for name, each in bands.items()}
        values = self._kernels.run(original, given)
        written = {}
        for name in operator.outputs:
            base, region = place_of(self._graph.tensor[name])
            base, region = (base, region) if base in values else (tile.outputs[0], tile.regions[0])
            written[name] = bytes_of_region(values[base], self._whole.tensor[base].shape or (), region)
        return written

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float:
        """Return the difference from the whole model, after the bands are put together."""
        given = {tensor.name: self._gathered(tensor, inputs) for tensor in self._whole.with_role(Role.INPUT)}
        found = {tensor.name: self._gathered(tensor, outputs) for tensor in self._whole.with_role(Role.OUTPUT)}
        return self._kernels.difference_from_whole_model(given, found)

    def _base(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        base = self._whole.tensor[place_of(tensor)[0]]
        return base, base.shape or ()

    def _gathered(self, base: Tensor, contents: Mapping[str, Bytes]) -> Bytes:
        if base.name in contents:
            return contents[base.name]
        bands = [(tensor, contents[tensor.name]) for tensor in self._graph.tensors if tensor.part_of == base.name]
        return self._put_together(base, bands)

    def _put_together(self, base: Tensor, bands: list[tuple[Tensor, Bytes]]) -> Bytes:
        if len(bands) == 1 and bands[0][0].part_of is None:
            return bands[0][1]
        return bytes_put_together(base, bands)
