"""Program that times compiled nests in turn with numpy and onnxruntime, on one thread, and compares their values.

It reads the fields of a TimedNest as JSON from standard input, and prints its findings as JSON. It runs in a process of
its own, because BLAS reads the number of threads from the environment when numpy is imported.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.ir.layer import Layer

Values: TypeAlias = "npt.NDArray[Any]"
ZERO_POINT: Final = 128
"""Zero point of uint8 inputs: onnxruntime multiplies uint8 by int8 fastest."""
OPSET, IR_VERSION = 21, 10


@dataclass(frozen=True, slots=True)
class TimedNest:
    """A compiled nest: its function in a library, its layer, and how long to measure."""

    library: str
    function: str
    layer: Layer
    seconds: float
    repeats: int


def numpy_nest(layer: Layer, source: Values, weight: Values) -> Callable[[], Values]:
    """Return a function for the layer in numpy: a product of matrices, or one for each filter tap."""
    exact = np.int32 if layer.input_bits == 8 else np.float32
    source, weight = source.astype(exact), weight.astype(exact)
    shape = (layer.n, layer.p, layer.q, layer.g, layer.k)
    if _is_product(layer):
        rows, columns = source.reshape(layer.n, layer.c), weight.reshape(layer.c, layer.k)
        made = np.empty((layer.n, layer.k), exact)
        return lambda: np.dot(rows, columns, out=made).reshape(shape)
    top, left, bottom, right = layer.padding
    padded = np.pad(source, ((0, 0), (top, bottom), (left, right), (0, 0), (0, 0)))

    def run() -> Values:
        made = np.zeros(shape, exact)
        for r in range(layer.r):
            for s in range(layer.s):
                y, x = r * layer.dilation[0], s * layer.dilation[1]
                last = y + (layer.p - 1) * layer.stride[0] + 1, x + (layer.q - 1) * layer.stride[1] + 1
                window = padded[:, y : last[0] : layer.stride[0], x : last[1] : layer.stride[1]]
                made += np.einsum("npqgc,cgk->npqgk", window, weight[r, s], optimize=True)
        return made

    return run


def onnxruntime_nest(layer: Layer, source: Values, weight: Values) -> Callable[[], Values] | None:
    """Return a function for the layer in onnxruntime; None without onnxruntime, and for float products (BLAS).

    Convolutions are Conv or ConvInteger, whose weights are uint8, on channels-first data.
    """
    is_integer = layer.input_bits == 8
    try:
        if _is_product(layer):
            if not is_integer:
                return None
            given = {"w": weight.reshape(layer.c, layer.k), "zero": np.array(ZERO_POINT, np.uint8)}
            product = _session("MatMulInteger", ["x", "w", "zero"], source.reshape(layer.n, layer.c), given, {})
            return lambda: product().reshape(layer.n, 1, 1, 1, layer.k)
        image = np.ascontiguousarray(source.reshape(*source.shape[:3], -1).transpose(0, 3, 1, 2))
        filters = np.ascontiguousarray(weight.transpose(3, 4, 2, 0, 1).reshape(-1, layer.c, layer.r, layer.s))
        top, left, bottom, right = layer.padding
        attributes = {"strides": layer.stride, "dilations": layer.dilation, "group": layer.g}
        attributes["pads"] = [top, left, bottom, right]
        if is_integer:
            given = {"w": _unsigned(filters), "zero": np.array(ZERO_POINT, np.uint8)}
            convolution = _session("ConvInteger", ["x", "w", "zero", "zero"], image, given, attributes)
        else:
            convolution = _session("Conv", ["x", "w"], image, {"w": filters}, attributes)
    except ImportError:
        return None
    shape = (layer.n, layer.g, layer.k, layer.p, layer.q)
    return lambda: convolution().reshape(shape).transpose(0, 3, 4, 1, 2)


def _is_product(layer: Layer) -> bool:
    return all(layer.bounds[name] == 1 for name in "PQRSG")


def _unsigned(values: Values) -> Values:
    return (values.astype(np.int16) + ZERO_POINT).astype(np.uint8)


def _session(
    kind: str, inputs: list[str], image: Values, given: Mapping[str, Values], attributes: Mapping[str, Any]
) -> Callable[[], Values]:
    """Return a run of a one-operator model on one thread, on an image whose integers become uint8.

    Raises ImportError without onnxruntime.
    """
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    image = image if kind == "Conv" else _unsigned(image)
    node = helper.make_node(kind, inputs, ["y"], **attributes)
    taken = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(image.dtype), image.shape)
    element = TensorProto.FLOAT if kind == "Conv" else TensorProto.INT32
    returned = helper.make_tensor_value_info("y", element, None)
    constants = [numpy_helper.from_array(values, name) for name, values in given.items()]
    graph = helper.make_graph([node], "one", [taken], [returned], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run() -> Values:
        made: Values = session.run(None, {"x": image})[0]
        return made

    return run


ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
SHORTEST_SECONDS: Final = 2e-3
"""Minimum duration of a measurement, which repeats shorter runs."""
ROUNDING: Final = 1e-4
NUMPY_RUNS: Final = 3


def measured(nest: TimedNest) -> dict[str, object]:
    """Return the seconds of the nest and of its peer, the median of their ratios, and the greatest relative error.

    Both are timed in turn, so that other load affects both. Integers are compared with numpy, as onnxruntime may
    saturate pairs of products on older processors.
    """
    layer, is_integer, random = nest.layer, nest.layer.input_bits == 8, np.random.default_rng(0)
    shapes = (layer.n, *layer.input_pixels, layer.g, layer.c), (layer.r, layer.s, layer.c, layer.g, layer.k)
    source, weight = (
        random.integers(-128, 128, shape, np.int8) if is_integer else random.standard_normal(shape, np.float32)
        for shape in shapes
    )
    output = np.empty((layer.n, layer.p, layer.q, layer.g, layer.k), np.int32 if is_integer else np.float32)
    function = ctypes.CDLL(nest.library)[nest.function]
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    pointers = source.ctypes.data, weight.ctypes.data, output.ctypes.data
    in_numpy, in_onnxruntime = numpy_nest(layer, source, weight), onnxruntime_nest(layer, source, weight)
    function(*pointers)
    ours, theirs = _Timed(lambda: function(*pointers)), _Timed(in_onnxruntime or in_numpy)
    end = perf_counter() + nest.seconds
    seconds: list[tuple[float, float]] = []
    while len(seconds) < nest.repeats or perf_counter() < end:
        seconds.append((ours.seconds(), theirs.seconds()))
    own, peer = (min(each) for each in zip(*seconds, strict=True))
    alone = _Timed(in_numpy)
    reference = in_numpy() if is_integer or in_onnxruntime is None else in_onnxruntime()
    error = float(np.abs(output.astype(np.float64) - reference).max() / max(1.0, float(np.abs(reference).max())))
    return {
        "seconds": own,
        "peer": "numpy" if in_onnxruntime is None else "onnxruntime",
        "peer_seconds": peer,
        "numpy_seconds": peer if in_onnxruntime is None else min(alone.seconds() for _ in range(NUMPY_RUNS)),
        "ratio": median(theirs_once / ours_once for ours_once, theirs_once in seconds),
        "error": error,
        "is_right": error <= (0.0 if is_integer else ROUNDING),
    }


class _Timed:
    """Runs a function so often in a row that a measurement takes a few milliseconds."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        self._times = 1
        run()
        self._times = max(1, int(SHORTEST_SECONDS / max(1e-7, self.seconds())))

    def seconds(self) -> float:
        """Return the processor seconds of a run, which other programs do not affect."""
        begin = process_time()
        for _ in range(self._times):
            self._run()
        return (process_time() - begin) / self._times


def main() -> None:
    """Measure the nest on standard input, and print the findings."""
    said = json.load(sys.stdin)
    sizes: dict[str, Any] = said.pop("layer")
    sizes = {name: tuple(one) if isinstance(one, list) else one for name, one in sizes.items()}
    print(json.dumps(measured(TimedNest(**said, layer=Layer(**sizes)))))


if __name__ == "__main__":
    main()
