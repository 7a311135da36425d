"""Libraries that are timed against a compiled nest compute the same values."""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import pytest

from onchip.backends.nests.timed_nest import TimedNest, numpy_nest, onnxruntime_nest
from onchip.ir.layer import Layer

PRODUCT: Final = Layer(n=5, k=6, c=7)
CONVOLUTIONS: Final = (
    Layer(n=2, k=4, c=3, p=5, q=4, r=3, s=2, stride=(2, 1)),
    Layer(k=2, c=1, g=3, p=4, q=4, r=3, s=3, padding=(1, 1, 1, 1)),
    Layer(k=3, c=2, p=3, q=3, r=2, s=2, dilation=(2, 3)),
)


def nest_of(layer: Layer, is_integer: bool) -> TimedNest:
    sizes = layer.input_pixels, layer.stride, layer.dilation, layer.padding
    return TimedNest("", "", layer.bounds, *sizes, is_integer, 0.0, 1)


def operands(layer: Layer, is_integer: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return integers so small that no sum of two products saturates in 16 bits."""
    random = np.random.default_rng(0)
    shapes = (layer.n, *layer.input_pixels, layer.g, layer.c), (layer.r, layer.s, layer.c, layer.g, layer.k)
    kind = np.int8 if is_integer else np.float32
    source, weight = (random.integers(-16, 16, shape).astype(kind) for shape in shapes)
    return source, weight


@pytest.mark.parametrize("layer", [PRODUCT, *CONVOLUTIONS], ids=str)
@pytest.mark.parametrize("is_integer", [False, True])
def test_onnxruntime_computes_what_numpy_does(layer: Layer, is_integer: bool) -> None:
    pytest.importorskip("onnxruntime")
    nest, given = nest_of(layer, is_integer), operands(layer, is_integer)
    peer = onnxruntime_nest(nest, *given)
    if layer is PRODUCT and not is_integer:
        assert peer is None
        return
    assert peer is not None
    ours = numpy_nest(nest, *given)()
    assert ours.dtype == (np.int32 if is_integer else np.float32)
    assert ours.shape == (layer.n, layer.p, layer.q, layer.g, layer.k)
    assert np.allclose(peer(), ours)


def test_without_onnxruntime_numpy_is_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    nest = nest_of(CONVOLUTIONS[0], is_integer=True)
    assert onnxruntime_nest(nest, *operands(CONVOLUTIONS[0], is_integer=True)) is None
