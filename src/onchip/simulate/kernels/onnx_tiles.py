"""Runs tiles of an ONNX model's operators: the whole operator on the bands it got, all else zero; then the region.

That is exact where a region of the output depends only on what the tile reads. Of a sum in parts, each part is what
the operator makes of the part, all else being the neutral element; what is added once, such as a bias, is taken off
again from all parts but the first.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onchip.formats.onnx.part_results import ReducedPart, combination_of
from onchip.formats.onnx.program import Array
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import SumPart, Tile
from onchip.ops.pointwise.partial_sums import AFFINE, CONTINUED, REDUCTIONS
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.transform.slices.tile_bytes import Bytes, bytes_of_region, bytes_put_together, place_of


class OnnxTileKernels:
    """Runs `graph`, the tiles of `whole`, of which `kernels` runs the operators."""

    name = OnnxKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: OnnxKernels) -> None:
        self._graph = graph
        self._whole = whole
        self._kernels = kernels

    def parameter(self, tensor: Tensor) -> Bytes:
        """A parameter's bytes; of a band, its region."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.parameter(base), shape, place_of(tensor)[1])

    def network_input(self, tensor: Tensor) -> Bytes:
        """Random, of the seed; of a band, its region."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.network_input(base), shape, place_of(tensor)[1])

    def given_input(self, tensor: Tensor, array: Array) -> Bytes:
        """The bytes of a value handed in for the whole tensor; of a band, its region. Raises InputError."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.given_input(base, array), shape, place_of(tensor)[1])

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """The operator's outputs; raises GraphError where onnxruntime does not know how."""
        tile = operator.tile
        if tile is None:
            return self._kernels.run(operator, operands)
        original = self._whole.operator[tile.operator]
        before = operator.inputs[-1] if tile.part.adds_to_a_sum else None
        bands: dict[str, list[tuple[Tensor, Bytes]]] = {name: [] for name in original.inputs}
        for name, content in operands.items():
            if name != before:
                tensor = self._graph.tensor[name]
                bands.setdefault(place_of(tensor)[0], []).append((tensor, content))
        if tile.part is SumPart.WHOLE:
            values = self._kernels.run(original, self._given(bands))
        else:
            earlier = None if before is None else operands[before]
            values = {tile.outputs[0]: self._part_of_sum(original, tile, bands, earlier)}
        written = {}
        for name in operator.outputs:
            base, region = place_of(self._graph.tensor[name])
            base, region = (base, region) if base in values else (tile.outputs[0], tile.regions[0])
            written[name] = bytes_of_region(values[base], self._whole.tensor[base].shape or (), region)
        return written

    def _given(self, bands: Mapping[str, list[tuple[Tensor, Bytes]]]) -> dict[str, Bytes]:
        return {name: self._put_together(self._whole.tensor[name], each) for name, each in bands.items()}

    def _part_of_sum(
        self,
        original: Operator,
        tile: Tile,
        bands: Mapping[str, list[tuple[Tensor, Bytes]]],
        before: Bytes | None,
    ) -> Bytes:
        """The bytes of the whole output: in the tile's region, what is summed up so far."""
        output = tile.outputs[0]
        dtype, shape = self._kernels.element_type(output), self._whole.tensor[output].shape or ()
        combination = combination_of(original.kind, dtype)
        given, source = self._given(bands), original.inputs[0]
        earlier = None if before is None else before.view(dtype)
        if original.kind in REDUCTIONS:
            part = ReducedPart.of(original, self._whole, tile.reduction or (0, 1))
            alone = part.alone(given[source], combination)
            if earlier is not None and original.kind == CONTINUED:
                part.go_on(alone, tile.regions[0], earlier)
                earlier = None
            given[source] = alone.reshape(-1).view(np.uint8)
        found = self._kernels.run(original, given)[output].view(dtype).reshape(shape).copy()
        if earlier is None:
            return found.reshape(-1).view(np.uint8)
        if original.kind in AFFINE:
            nothing = {name: np.zeros_like(content) for name, content in given.items() if name in original.inputs}
            found -= self._kernels.run(original, nothing)[output].view(dtype).reshape(shape)
        here = tuple(slice(*each) for each in tile.regions[0])
        found[here] = combination.combine(found[here], earlier.reshape(found[here].shape))
        return found.reshape(-1).view(np.uint8)

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float:
        """As of the operators that are not split, the bands put together."""
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
