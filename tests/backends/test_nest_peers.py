"""Libraries that are timed against a compiled nest compute the same values."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from host.timed_nest import numpy_nest, onnxruntime_nest

from onchip.ir.layer import Layer

PRODUCT: Final = Layer(n=5, k=6, c=7)
CONVOLUTIONS: Final = (
    Layer(n=2, k=4, c=3, p=5, q=4, r=3, s=2, stride=(2, 1)),
    Layer(k=2, c=1, g=3, p=4, q=4, r=3, s=3, padding=(1, 1, 1, 1)),
    Layer(k=3, c=2, p=3, q=3, r=2, s=2, dilation=(2, 3)),
)


def with_bits(layer: Layer, is_integer: bool) -> Layer:
    bits = 8 if is_integer else 32
    return replace(layer, input_bits=bits, weight_bits=bits)


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
    with_its_bits, given = with_bits(layer, is_integer), operands(layer, is_integer)
    peer = onnxruntime_nest(with_its_bits, *given)
    if layer is PRODUCT and not is_integer:
        assert peer is None
        return
    assert peer is not None
    ours = numpy_nest(with_its_bits, *given)()
    assert ours.dtype == (np.int32 if is_integer else np.float32)
    assert ours.shape == (layer.n, layer.p, layer.q, layer.g, layer.k)
    assert np.allclose(peer(), ours)


def test_without_onnxruntime_numpy_is_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    layer = with_bits(CONVOLUTIONS[0], is_integer=True)
    assert onnxruntime_nest(layer, *operands(CONVOLUTIONS[0], is_integer=True)) is None
