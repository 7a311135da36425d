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
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[Any]

ZERO_POINT: Final = 128
"""Zero point of uint8 inputs: onnxruntime multiplies uint8 by int8 fastest."""
OPSET, IR_VERSION = 21, 10


@dataclass(frozen=True, slots=True)
class TimedNest:
    """The nest of a layer, compiled: its function in a library, the sizes of the layer, and how long to measure.

    `bounds` are N, K, C, P, Q, R, S, G; `pixels` the height and width of the input.
    """

    library: str
    function: str
    bounds: dict[str, int]
    pixels: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    is_integer: bool
    seconds: float
    repeats: int

    @property
    def is_product(self) -> bool:
        """True if the layer is a product of two matrices."""
        return all(self.bounds[name] == 1 for name in "PQRSG")


def numpy_nest(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    """Return a function for the nest in numpy: a product of matrices, or one for each filter tap."""
    return _numpy_product(nest, source, weight) if nest.is_product else _numpy_windows(nest, source, weight)


def onnxruntime_nest(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values] | None:
    """Return a function for the nest in onnxruntime; None without onnxruntime, and for float products (BLAS)."""
    if nest.is_product and not nest.is_integer:
        return None
    try:
        return _onnxruntime_product(nest, source, weight) if nest.is_product else _convolution(nest, source, weight)
    except ImportError:
        return None


def _numpy_product(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    import numpy as np

    b = nest.bounds
    rows, columns = source.reshape(b["N"], b["C"]), weight.reshape(b["C"], b["K"])
    if nest.is_integer:
        rows, columns = rows.astype(np.int32), columns.astype(np.int32)
    shape = (b["N"], 1, 1, 1, b["K"])
    made = np.empty((b["N"], b["K"]), rows.dtype)
    return lambda: np.dot(rows, columns, out=made).reshape(shape)


def _numpy_windows(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    import numpy as np

    b, (top, left, bottom, right) = nest.bounds, nest.padding
    exact = np.int32 if nest.is_integer else np.float32
    padded = np.pad(source.astype(exact), ((0, 0), (top, bottom), (left, right), (0, 0), (0, 0)))
    weights = weight.astype(exact)

    def run() -> Values:
        made = np.zeros((b["N"], b["P"], b["Q"], b["G"], b["K"]), exact)
        for r in range(b["R"]):
            for s in range(b["S"]):
                y, x = r * nest.dilation[0], s * nest.dilation[1]
                last = y + (b["P"] - 1) * nest.stride[0] + 1, x + (b["Q"] - 1) * nest.stride[1] + 1
                window = padded[:, y : last[0] : nest.stride[0], x : last[1] : nest.stride[1]]
                made += np.einsum("npqgc,cgk->npqgk", window, weights[r, s], optimize=True)
        return made

    return run


def _onnxruntime_product(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    b = nest.bounds
    given = {"w": weight.reshape(b["C"], b["K"]), "zero": _zero()}
    rows = _unsigned(source.reshape(b["N"], b["C"]))
    session = _session("MatMulInteger", ["x", "w", "zero"], rows, given, {})
    shape = (b["N"], 1, 1, 1, b["K"])
    return lambda: session(rows).reshape(shape)


def _convolution(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    """Return Conv or ConvInteger, whose weights are uint8, on channels-first data."""
    import numpy as np

    b = nest.bounds
    image = np.ascontiguousarray(source.reshape(*source.shape[:3], -1).transpose(0, 3, 1, 2))
    filters = np.ascontiguousarray(weight.transpose(3, 4, 2, 0, 1).reshape(-1, b["C"], b["R"], b["S"]))
    top, left, bottom, right = nest.padding
    attributes = {
        "strides": nest.stride,
        "dilations": nest.dilation,
        "group": b["G"],
        "pads": [top, left, bottom, right],
    }
    if nest.is_integer:
        image, given = _unsigned(image), {"w": _unsigned(filters), "zero": _zero()}
        session = _session("ConvInteger", ["x", "w", "zero", "zero"], image, given, attributes)
    else:
        session = _session("Conv", ["x", "w"], image, {"w": filters}, attributes)
    shape = (b["N"], b["G"], b["K"], b["P"], b["Q"])
    return lambda: session(image).reshape(shape).transpose(0, 3, 4, 1, 2)


def _unsigned(values: Values) -> Values:
    import numpy as np

    return (values.astype(np.int16) + ZERO_POINT).astype(np.uint8)


def _zero() -> Values:
    import numpy as np

    return np.array(ZERO_POINT, np.uint8)


def _session(
    kind: str, inputs: list[str], image: Values, given: Mapping[str, Values], attributes: Mapping[str, Any]
) -> Callable[[Values], Values]:
    """Return a one-operator model as a function of its image, on one thread; raises ImportError without onnxruntime."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node(kind, inputs, ["y"], **attributes)
    taken = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(image.dtype), image.shape)
    element = TensorProto.FLOAT if kind == "Conv" else TensorProto.INT32
    returned = helper.make_tensor_value_info("y", element, None)
    constants = [numpy_helper.from_array(values, name) for name, values in given.items()]
    graph = helper.make_graph([node], "one", [taken], [returned], constants)
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(given_image: Values) -> Values:
        made: Values = session.run(None, {"x": given_image})[0]
        return made

    return run


ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
SHORTEST_SECONDS: Final = 2e-3
"""Minimum duration of a measurement, which repeats shorter runs."""
ROUNDING: Final = 1e-5
NUMPY: Final = "numpy"
ONNXRUNTIME: Final = "onnxruntime"
NUMPY_RUNS: Final = 3


def measured(nest: TimedNest) -> dict[str, object]:
    """Return the seconds of the nest and of its peer, the median of their ratios, and the greatest relative error.

    Integers are compared with numpy, as onnxruntime may saturate pairs of products on older processors.
    """
    import numpy as np

    random = np.random.default_rng(0)
    b = nest.bounds
    shapes = (b["N"], *nest.pixels, b["G"], b["C"]), (b["R"], b["S"], b["C"], b["G"], b["K"])
    source, weight = (
        random.integers(-128, 128, shape, np.int8) if nest.is_integer else random.standard_normal(shape, np.float32)
        for shape in shapes
    )
    output = np.empty((b["N"], b["P"], b["Q"], b["G"], b["K"]), np.int32 if nest.is_integer else np.float32)
    function = ctypes.CDLL(nest.library)[nest.function]
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    pointers = source.ctypes.data, weight.ctypes.data, output.ctypes.data
    in_numpy = numpy_nest(nest, source, weight)
    in_onnxruntime = onnxruntime_nest(nest, source, weight)
    function(*pointers)
    found = _times(lambda: function(*pointers), in_onnxruntime or in_numpy, nest)
    found["numpy_seconds"] = found["peer_seconds"] if in_onnxruntime is None else _numpy_seconds(in_numpy)
    reference = in_numpy() if nest.is_integer or in_onnxruntime is None else in_onnxruntime()
    peer = NUMPY if in_onnxruntime is None else ONNXRUNTIME
    error = float(np.abs(output.astype(np.float64) - reference).max() / max(1.0, float(np.abs(reference).max())))
    return {**found, "peer": peer, "error": error, "is_right": error <= (0.0 if nest.is_integer else ROUNDING * 10)}


def _times(ours: Callable[[], object], theirs: Callable[[], object], nest: TimedNest) -> dict[str, object]:
    """Time both in turn, so that other load affects both."""
    inner = [_runs_in(SHORTEST_SECONDS, one) for one in (ours, theirs)]
    end = perf_counter() + nest.seconds
    seconds: list[tuple[float, float]] = []
    while len(seconds) < nest.repeats or perf_counter() < end:
        seconds.append((_seconds(ours, inner[0]), _seconds(theirs, inner[1])))
    return {
        "seconds": min(one for one, _ in seconds),
        "peer_seconds": min(other for _, other in seconds),
        "ratio": median(other / one for one, other in seconds),
        "repeats": len(seconds),
    }


def _numpy_seconds(run: Callable[[], Values]) -> float:
    inner = _runs_in(SHORTEST_SECONDS, run)
    return min(_seconds(run, inner) for _ in range(NUMPY_RUNS))


def _seconds(run: Callable[[], object], times: int) -> float:
    """Return the processor seconds of a run, which other programs do not affect."""
    begin = process_time()
    for _ in range(times):
        run()
    return (process_time() - begin) / times


def _runs_in(seconds: float, run: Callable[[], object]) -> int:
    run()
    return max(1, int(seconds / max(1e-7, _seconds(run, 1))))


def main() -> None:
    """Measure the nest on standard input, and print the findings."""
    said = json.load(sys.stdin)
    nest = TimedNest(**{**said, "library": str(Path(said["library"]).resolve())})
    print(json.dumps(measured(nest)))


if __name__ == "__main__":
    main()
