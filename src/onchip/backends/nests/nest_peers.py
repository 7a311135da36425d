"""The same nest by libraries: numpy, and onnxruntime where it is installed and may be faster.

Each is a function without arguments; its values have the axes of ours, [N][P][Q][G][K]. Integers are int8 with sums of
int32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[Any]

ZERO_POINT: Final = 128
"""Of what onnxruntime takes as uint8: it has its fastest products of a matrix of uint8 by one of int8."""
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
        """Whether it is a product of two matrices."""
        return all(self.bounds[name] == 1 for name in "PQRSG")


def numpy_nest(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    """A product of matrices, or one for each tap, as numpy has no convolution."""
    return _numpy_product(nest, source, weight) if nest.is_product else _numpy_windows(nest, source, weight)


def onnxruntime_nest(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values] | None:
    """None for products of floats, which are BLAS's in numpy, and where onnxruntime is not installed."""
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
    """Of integers: MatMulInteger."""
    b = nest.bounds
    given = {"w": weight.reshape(b["C"], b["K"]), "zero": _zero()}
    rows = _unsigned(source.reshape(b["N"], b["C"]))
    session = _session("MatMulInteger", ["x", "w", "zero"], rows, given, {})
    shape = (b["N"], 1, 1, 1, b["K"])
    return lambda: session(rows).reshape(shape)


def _convolution(nest: TimedNest, source: Values, weight: Values) -> Callable[[], Values]:
    """Conv, or of integers ConvInteger; it gets its data with channels first, as it has them.

    ConvInteger takes weights of uint8 alone.
    """
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
    """The same differences from the zero point, as uint8."""
    import numpy as np

    return (values.astype(np.int16) + ZERO_POINT).astype(np.uint8)


def _zero() -> Values:
    import numpy as np

    return np.array(ZERO_POINT, np.uint8)


def _session(
    kind: str, inputs: list[str], image: Values, given: Mapping[str, Values], attributes: Mapping[str, Any]
) -> Callable[[Values], Values]:
    """Of an image what a model of one operator makes, on one thread; raises ImportError without onnxruntime."""
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
