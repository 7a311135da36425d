"""Kernels for tiles of a model's operators, some of which run in steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.ir.tile import Tile
from onchip.simulate.kernels.onnx_step_kernels import StepKernels
from onchip.simulate.kernels.onnx_tiles import OnnxTileKernels
from onchip.transform.slices.tile_bytes import Bytes

if TYPE_CHECKING:
    from onchip.simulate.kernels.onnx_kernels import OnnxKernels


class OnnxStepTileKernels(OnnxTileKernels):
    """Runs `graph`, the tiles of `in_steps`; `kernels` runs the operators."""

    def __init__(self, graph: Graph, in_steps: Graph, kernels: StepKernels) -> None:
        # OnnxTileKernels uses only the part of the interface that both kinds of kernels share.
        super().__init__(graph, in_steps, cast("OnnxKernels", kernels))
        self._steps = kernels

    def _part_of_sum(
        self,
        original: Operator,
        tile: Tile,
        bands: Mapping[str, list[tuple[Tensor, Bytes]]],
        before: Bytes | None,
    ) -> Bytes:
        if not self._steps.is_step(original):
            return super()._part_of_sum(original, tile, bands, before)
        dtype = self._steps.element_type(tile.outputs[0])
        found = self._steps.part_of_step(original, self._given(bands), tile.reduction)
        if before is not None:
            here = tuple(slice(*each) for each in tile.regions[0])
            found[here] += before.view(dtype).reshape(found[here].shape)
        return np.ascontiguousarray(found.astype(dtype)).reshape(-1).view(np.uint8)
