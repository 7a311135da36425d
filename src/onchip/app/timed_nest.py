"""Run as a program with one thread: times compiled nests and their peers in turn, and compares what they compute.

It reads a TimedNest's fields as JSON from standard input, and prints what it found as JSON. In a process of its own,
as BLAS takes its number of threads from the environment when numpy is imported.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[Any]

ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
SHORTEST_SECONDS: Final = 2e-3
"""Of one measurement: shorter runs are repeated within it."""
ROUNDING: Final = 1e-5
NUMPY: Final = "numpy"
NUMPY_RUNS: Final = 3


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
        """Whether it is a product of two matrices."""
        return all(self.bounds[name] == 1 for name in "PQRSG")


def measured(nest: TimedNest) -> dict[str, object]:
    """Seconds of the nest and of its peer, the median of their ratios, and the greatest difference of their values."""
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
    peer, expected = _peer(nest, source, weight)
    function(*pointers)
    found = _times(lambda: function(*pointers), expected, nest)
    found["numpy_seconds"] = found["peer_seconds"] if peer == NUMPY else _numpy_seconds(nest, source, weight)
    reference = expected()
    error = float(np.abs(output.astype(np.float64) - reference).max() / max(1.0, float(np.abs(reference).max())))
    return {**found, "peer": peer, "error": error, "is_right": error <= (0.0 if nest.is_integer else ROUNDING * 10)}


def _times(ours: Callable[[], object], theirs: Callable[[], object], nest: TimedNest) -> dict[str, object]:
    """In turn, so that what else the machine does comes to both."""
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


def _numpy_seconds(nest: TimedNest, source: Values, weight: Values) -> float:
    """Of numpy where it is not the peer: the least of a few runs."""
    run = _numpy_windows(nest, source, weight)
    inner = _runs_in(SHORTEST_SECONDS, run)
    return min(_seconds(run, inner) for _ in range(NUMPY_RUNS))


def _seconds(run: Callable[[], object], times: int) -> float:
    """Of the processor: what it does for others meanwhile is not counted."""
    begin = process_time()
    for _ in range(times):
        run()
    return (process_time() - begin) / times


def _runs_in(seconds: float, run: Callable[[], object]) -> int:
    run()
    return max(1, int(seconds / max(1e-7, _seconds(run, 1))))


def _peer(nest: TimedNest, source: Values, weight: Values) -> tuple[str, Callable[[], Values]]:
    """Who computes the same, and how: its values have the axes of ours."""
    if nest.is_product:
        return _numpy_product(nest, source, weight)
    if not nest.is_integer:
        try:
            return "onnxruntime", _onnxruntime_convolution(nest, source, weight)
        except ImportError:
            pass
    return NUMPY, _numpy_windows(nest, source, weight)


def _numpy_product(nest: TimedNest, source: Values, weight: Values) -> tuple[str, Callable[[], Values]]:
    import numpy as np

    b = nest.bounds
    rows, columns = source.reshape(b["N"], b["C"]), weight.reshape(b["C"], b["K"])
    if nest.is_integer:
        rows, columns = rows.astype(np.int32), columns.astype(np.int32)
    shape = (b["N"], 1, 1, 1, b["K"])
    made = np.empty((b["N"], b["K"]), rows.dtype)
    return NUMPY, lambda: np.dot(rows, columns, out=made).reshape(shape)


def _numpy_windows(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    """One product of matrices for each tap, as numpy has no convolution."""
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


def _onnxruntime_convolution(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    """Raises ImportError where onnxruntime is not installed. It gets its data with channels first, as it has them."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    b = nest.bounds
    image = np.ascontiguousarray(source.reshape(*source.shape[:3], -1).transpose(0, 3, 1, 2))
    filters = np.ascontiguousarray(weight.transpose(3, 4, 2, 0, 1).reshape(-1, b["C"], b["R"], b["S"]))
    top, left, bottom, right = nest.padding
    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        strides=nest.stride,
        dilations=nest.dilation,
        group=b["G"],
        pads=[top, left, bottom, right],
    )
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    values[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, image.shape)
    graph = helper.make_graph([node], "one", values[:1], values[1:], [numpy_helper.from_array(filters, "w")])
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shape = (b["N"], b["G"], b["K"], b["P"], b["Q"])
    return _Session(session, image, shape).run


@dataclass(slots=True)
class _Session:
    session: Any
    image: Values
    shape: tuple[int, ...]

    def run(self) -> Values:
        made: Values = self.session.run(None, {"x": self.image})[0]
        return made.reshape(self.shape).transpose(0, 3, 4, 1, 2)


def main() -> None:
    """Measure what standard input says, and print what was found."""
    said = json.load(sys.stdin)
    nest = TimedNest(**{**said, "library": str(Path(said["library"]).resolve())})
    print(json.dumps(measured(nest)))


if __name__ == "__main__":
    main()
