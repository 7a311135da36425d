"""Windows that slide along three dimensions: a loop nest for each slice of the output gives the runtime's values."""

from __future__ import annotations

from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx.helper import make_node

from onchip.answer.document import Reading
from onchip.api.networks import read_network
from onchip.ir.layer import Layer
from onchip.ops.layers_of import Precision, layers_of
from onchip.verify.schedule.nests import NestDerivation
from oracles.loop_nest import PlainNest
from support.onnx_networks import model, value

Values = npt.NDArray[np.float64]
Sizes = tuple[int, int, int]

three = st.tuples(*[st.integers(1, 3)] * 3)


def slice_of_input(layer: Layer, source: Values, begin: int, dilation: int, taps: range, groups: int) -> Values:
    """Return the input slices that an output slice reads, stacked as channels and cropped to the pixels read."""
    seen = np.stack([source[:, :, begin + tap * dilation] for tap in taps], axis=2)
    batch, channels, *_ = source.shape
    height, width = layer.input_pixels
    return seen.reshape(batch, groups, channels // groups * len(taps), *seen.shape[-2:])[..., :height, :width]


@given(three, three, three, three, three, st.integers(1, 2), st.sampled_from(["Conv", "MaxPool"]))
@settings(max_examples=60, deadline=None)
def test_the_slices_compute_what_the_runtime_computes(
    extra: Sizes, kernel: Sizes, strides: Sizes, dilations: Sizes, pads: Sizes, groups: int, kind: str
) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra `onnxruntime`)")
    before = tuple(min(pad - 1, size - 1) for pad, size in zip(pads, kernel, strict=True))
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    sizes = [max(one + more - 1 - 2 * pad, 1) for one, more, pad in zip(reach, extra, before, strict=True)]
    assume(all(size + 2 * pad >= one for size, pad, one in zip(sizes, before, reach, strict=True)))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": (*before, *before),
    }  # fmt: skip
    random = np.random.default_rng(0)
    source, weight = random.normal(size=(1, 2 * groups, *sizes)), random.normal(size=(2 * groups, 2, *kernel))
    is_pool = kind == "MaxPool"
    kept = [] if is_pool else [numpy_helper.from_array(weight.astype(np.float32), "w")]
    if not is_pool:
        attributes["group"] = groups
    node = make_node(kind, ["x"] if is_pool else ["x", "w"], ["y"], name="op", **attributes)
    made = model([node], [value("x", source.shape)], ["y"], kept)
    (expected,) = runtime.InferenceSession(made.SerializeToString()).run(None, {"x": source.astype(np.float32)})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(made.SerializeToString())
        graph = read_network(str(path), Reading(bits=8))
    layers = layers_of(graph).layers
    derived = NestDerivation(graph, Precision().sum_bits).of(graph.operators[0])
    assert (derived.layers if derived else ()) == tuple(layers.values())
    if not layers:
        return
    if list(layers) == ["op"]:
        return
    assert set(layers) <= {f"op ({output})" for output in range(expected.shape[2])}
    nest, products, ways = PlainNest(), 0, (2 * groups if is_pool else groups)
    for output in range(expected.shape[2]):
        begin = output * strides[0] - before[0]
        taps = [tap for tap in range(kernel[0]) if 0 <= begin + tap * dilations[0] < sizes[0]]
        if not taps:
            continue
        layer, seen = layers[f"op ({output})"], range(taps[0], taps[-1] + 1)
        arrays = [slice_of_input(layer, source, begin, dilations[0], seen, ways)]
        if not is_pool:
            used = weight.reshape(groups, 2, 2, *kernel)[:, :, :, taps[0] : taps[-1] + 1]
            arrays.append(used.reshape(groups, 2, 2 * len(taps), *kernel[1:]))
        found = nest.run(layer, *arrays, largest=is_pool)
        here = expected[:, :, output]
        least = np.finfo(np.float32).min  # the runtime's value of a window over padding alone
        np.testing.assert_allclose(np.maximum(found, least).reshape(here.shape), here, rtol=1e-4, atol=1e-4)
        products += here.size * len(taps) * prod(kernel[1:]) * (1 if is_pool else 2)
    assert nest.multiplied == products == sum(layer.macs for layer in layers.values())
