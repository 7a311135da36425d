"""Runs the tiles of a graph that was read from a TFLite file, as those of an ONNX file are run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from onchip.ir.graph import Graph
from onchip.simulate.kernels.onnx_tiles import OnnxTileKernels
from onchip.simulate.kernels.tflite_kernels import TfliteKernels

if TYPE_CHECKING:
    from onchip.simulate.kernels.onnx_kernels import OnnxKernels


class TfliteTileKernels(OnnxTileKernels):
    """Runs `graph`, the tiles of `whole`; `kernels` runs the operators."""

    name = TfliteKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: TfliteKernels) -> None:
        # OnnxTileKernels uses only the part of the interface that both kinds share; bands are those of the presented
        # axes.
        super().__init__(graph, whole, cast("OnnxKernels", kernels))
