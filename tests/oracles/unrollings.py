"""The loops that DeFiNES unrolls over an array, fixed per layer: KULeuven-MICAS/DeFiNES, 7097d60 (BSD-3-Clause)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from onchip.errors import UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import load_network
from onchip.ops.fusable import FusableLayer
from onchip.ops.fusable_reading import fusable_of

NETWORKS: Final = ("fsrcnn-defines", "dmcnn-vd-defines", "mc-cnn-defines", "mobilenetv1-defines", "resnet18-defines")
ARCHITECTURES: Final = (
    *("meta-prototype", "meta-prototype-df"),
    *("tpu-like-defines", "tpu-like-df"),
    *("edge-tpu-like", "edge-tpu-like-df"),
    *("ascend-like", "ascend-like-df", "ascend-like-paper", "ascend-like-df-paper"),
    *("tesla-npu-like", "tesla-npu-like-df", "tesla-npu-like-df-paper"),
)
"""Bundled accelerators; those with a common prefix have the same array and unrollings."""
_UNITS: Final[Mapping[tuple[str, str, str], tuple[str, int]]] = {
    ("edge-tpu-like", "dmcnn-vd-defines", "conv19"): ("K", 8),
    ("ascend-like", "mobilenetv1-defines", "pool27"): ("K", 8),
    ("ascend-like", "resnet18-defines", "conv0"): ("C", 2),
    ("tesla-npu-like", "dmcnn-vd-defines", "conv19"): ("K", 32),
    ("tesla-npu-like", "mobilenetv1-defines", "conv25"): ("OX", 8),
    ("tesla-npu-like", "mobilenetv1-defines", "conv26"): ("OX", 8),
    ("tesla-npu-like", "resnet18-defines", "conv20"): ("OX", 7),
    ("tesla-npu-like", "resnet18-defines", "conv21"): ("OX", 7),
    ("tesla-npu-like", "resnet18-defines", "add22"): ("OX", 7),
    ("tesla-npu-like", "resnet18-defines", "conv23"): ("OX", 7),
}
"""Exceptions by array, network and layer: the one dimension whose unrolling differs from the rule."""


def unrolling_of(network: str, architecture: str, layer: str) -> Mapping[str, tuple[str, int]]:
    """Return, for each used dimension of the array, the loop that it unrolls and the number of units.

    That number may exceed the loop's iterations. A pool or a depthwise convolution unrolls groups where others unroll
    output channels; an addition has only groups, so that all dimensions unroll those. Raises UsageError for names other
    than those of NETWORKS, ARCHITECTURES and the network's layers.
    """
    if network not in NETWORKS:
        raise UsageError(f"no unrolling is known for {network!r}", expected=f"one of {', '.join(NETWORKS)}")
    if architecture not in ARCHITECTURES:
        raise UsageError(f"no unrolling is known for {architecture!r}", expected=f"one of {', '.join(ARCHITECTURES)}")
    layers = _layers(network)
    if layer not in layers:
        raise UsageError(f"no layer {layer!r}", file=network, expected=f"one of {', '.join(layers)}")
    array = load_accelerator(architecture).array
    dimensions = {} if array is None else array.dimensions
    unrolled = {}
    for dimension, (loop, bound) in _bounds(layers[layer]).items():
        if dimension in dimensions and bound > 1:
            unrolled[dimension] = (loop, min(dimensions[dimension], bound))
    for (family, *named), (dimension, units) in _UNITS.items():
        if architecture.startswith(family) and named == [network, layer]:
            unrolled[dimension] = (unrolled[dimension][0], units)
    return unrolled


@cache
def _layers(network: str) -> Mapping[str, FusableLayer]:
    return {layer.name: layer for layer in fusable_of(load_network(network)).layers}


def _bounds(layer: FusableLayer) -> Mapping[str, tuple[str, int]]:
    """Return the loop along each possible dimension of an array, with its iterations."""
    nest, output = layer.layer, layer.output
    if len(layer.reads) > 1:
        return {"K": ("G", output.channels), "C": ("C", 1), "OX": ("G", output.columns), "OY": ("G", output.rows)}
    channels = ("G", nest.g) if nest.g > 1 else ("K", nest.k)
    return {"K": channels, "C": ("C", nest.c), "OX": ("Q", nest.q), "OY": ("P", nest.p)}
