"""TFLite files built from tensors and operators by name, layer by layer, or with branches and loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

Options = tuple[str, Mapping[str, int | float | bool | str]]
NO_OPTIONS: Options = ("", {})


@dataclass
class TfliteTensor:
    """A tensor, or with `data` a constant; `raw` is a constant's bytes, whatever its shape.

    `scales` are those of the channels along `axis`, instead of one `scale`.
    """

    name: str
    shape: Sequence[int]
    kind: str = "FLOAT32"
    data: npt.NDArray[Any] | None = None
    is_variable: bool = False
    scale: float | None = None
    scales: Sequence[float] = ()
    axis: int = 0
    raw: bytes | None = None
    signature: Sequence[int] = ()


@dataclass
class TfliteOperator:
    """An operator of a built-in kind, or a custom one named `custom`; operands are names or tensor indices.

    `""` is an absent operand.
    """

    kind: str
    inputs: Sequence[str | int]
    outputs: Sequence[str | int]
    options: Options = NO_OPTIONS
    custom: str = ""
    custom_options: bytes = b""


@dataclass
class TfliteSubgraph:
    """A graph over the names of its tensors; a duplicate name means the first tensor."""

    tensors: Sequence[TfliteTensor]
    operators: Sequence[TfliteOperator]
    inputs: Sequence[str]
    outputs: Sequence[str]
    name: str = "main"


@dataclass
class TfliteModel:
    """A file of some subgraphs; `metadata` are bytes by name."""

    subgraphs: Sequence[TfliteSubgraph]
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    _buffers: list[bytes] = field(default_factory=lambda: [b""])

    def write(self, path: Path) -> Path:
        path.write_bytes(self.content())
        return path

    def content(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        self._buffers = [b""]
        codes = list(dict.fromkeys((o.kind, o.custom) for graph in self.subgraphs for o in graph.operators))
        graphs = [self._subgraph(builder, graph, codes) for graph in self.subgraphs]
        metadata = [self._metadata(builder, name, content) for name, content in self.metadata.items()]
        written = [_code(builder, *code) for code in codes]
        buffers = [self._buffer(builder, content) for content in self._buffers]
        graph_list, code_list = _tables(builder, graphs), _tables(builder, written)
        buffer_list, metadata_list = _tables(builder, buffers), _tables(builder, metadata)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, 3)
        tflite.ModelAddOperatorCodes(builder, code_list)
        tflite.ModelAddSubgraphs(builder, graph_list)
        tflite.ModelAddBuffers(builder, buffer_list)
        tflite.ModelAddMetadata(builder, metadata_list)
        builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _subgraph(self, builder: flatbuffers.Builder, graph: TfliteSubgraph, codes: list[tuple[str, str]]) -> int:
        tensors = [self._tensor(builder, tensor) for tensor in graph.tensors]
        index = {tensor.name: at for at, tensor in reversed(list(enumerate(graph.tensors)))} | {"": -1}
        operators = [_operator(builder, one, index, codes.index((one.kind, one.custom))) for one in graph.operators]
        name = builder.CreateString(graph.name)
        tensor_list, operator_list = _tables(builder, tensors), _tables(builder, operators)
        inputs = _numbers(builder, [index[each] for each in graph.inputs])
        outputs = _numbers(builder, [index[each] for each in graph.outputs])
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddName(builder, name)
        tflite.SubGraphAddTensors(builder, tensor_list)
        tflite.SubGraphAddInputs(builder, inputs)
        tflite.SubGraphAddOutputs(builder, outputs)
        tflite.SubGraphAddOperators(builder, operator_list)
        return int(tflite.SubGraphEnd(builder))

    def _tensor(self, builder: flatbuffers.Builder, tensor: TfliteTensor) -> int:
        content = tensor.raw if tensor.data is None else np.ascontiguousarray(tensor.data).tobytes()
        if content is not None:
            self._buffers.append(content)
        name, shape = builder.CreateString(tensor.name), _numbers(builder, tensor.shape)
        signature = _numbers(builder, tensor.signature) if tensor.signature else None
        scales = tensor.scales or ([] if tensor.scale is None else [tensor.scale])
        quantisation = _quantisation(builder, scales, tensor.axis) if scales else None
        tflite.TensorStart(builder)
        tflite.TensorAddName(builder, name)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddType(builder, getattr(tflite.TensorType, tensor.kind))
        tflite.TensorAddBuffer(builder, 0 if content is None else len(self._buffers) - 1)
        tflite.TensorAddIsVariable(builder, tensor.is_variable)
        if signature is not None:
            tflite.TensorAddShapeSignature(builder, signature)
        if quantisation is not None:
            tflite.TensorAddQuantization(builder, quantisation)
        return int(tflite.TensorEnd(builder))

    def _metadata(self, builder: flatbuffers.Builder, name: str, content: bytes) -> int:
        self._buffers.append(content)
        text = builder.CreateString(name)
        tflite.MetadataStart(builder)
        tflite.MetadataAddName(builder, text)
        tflite.MetadataAddBuffer(builder, len(self._buffers) - 1)
        return int(tflite.MetadataEnd(builder))

    def _buffer(self, builder: flatbuffers.Builder, content: bytes) -> int:
        data = None
        if content:
            data = builder.CreateNumpyVector(np.frombuffer(content, np.uint8))
        tflite.BufferStart(builder)
        if data is not None:
            tflite.BufferAddData(builder, data)
        return int(tflite.BufferEnd(builder))


def network(
    tensors: Sequence[TfliteTensor], operators: Sequence[TfliteOperator], inputs: Sequence[str], outputs: Sequence[str]
) -> TfliteModel:
    """Return a file of one subgraph."""
    return TfliteModel([TfliteSubgraph(tensors, operators, inputs, outputs)])


def _operator(builder: flatbuffers.Builder, operator: TfliteOperator, index: Mapping[str, int], code: int) -> int:
    inputs = _numbers(builder, [_place(name, index) for name in operator.inputs])
    outputs = _numbers(builder, [_place(name, index) for name in operator.outputs])
    name, values = operator.options
    options = _options(builder, name, values) if name else None
    given = builder.CreateNumpyVector(np.frombuffer(operator.custom_options, np.uint8))
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, code)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    if operator.custom_options:
        tflite.OperatorAddCustomOptions(builder, given)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(builder, getattr(tflite.BuiltinOptions, name))
        tflite.OperatorAddBuiltinOptions(builder, options)
    return int(tflite.OperatorEnd(builder))


def _place(operand: str | int, index: Mapping[str, int]) -> int:
    return operand if isinstance(operand, int) else index[operand]


def _options(builder: flatbuffers.Builder, name: str, values: Mapping[str, int | float | bool | str]) -> int:
    values = {key: builder.CreateString(each) if isinstance(each, str) else each for key, each in values.items()}
    getattr(tflite, f"{name}Start")(builder)
    for field_name, value in values.items():
        getattr(tflite, f"{name}Add{field_name}")(builder, value)
    return int(getattr(tflite, f"{name}End")(builder))


def _code(builder: flatbuffers.Builder, kind: str, custom: str) -> int:
    text = builder.CreateString(custom) if custom else None
    number = getattr(tflite.BuiltinOperator, kind)
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddBuiltinCode(builder, number)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, 127))
    tflite.OperatorCodeAddVersion(builder, 1)
    if text is not None:
        tflite.OperatorCodeAddCustomCode(builder, text)
    return int(tflite.OperatorCodeEnd(builder))


def _quantisation(builder: flatbuffers.Builder, scales: Sequence[float], axis: int) -> int:
    own = builder.CreateNumpyVector(np.array(scales, np.float32))
    zeros = builder.CreateNumpyVector(np.zeros(len(scales), np.int64))
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, own)
    tflite.QuantizationParametersAddZeroPoint(builder, zeros)
    tflite.QuantizationParametersAddQuantizedDimension(builder, axis)
    return int(tflite.QuantizationParametersEnd(builder))


def _numbers(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(numbers, np.int32)))


def _tables(builder: flatbuffers.Builder, places: Sequence[int]) -> int:
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return int(builder.EndVector())


class TfliteLayers:
    """A chain of layers over float maps, with seeded weights."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.tensors = [TfliteTensor("x", shape)]
        self.operators: list[TfliteOperator] = []

    @property
    def last(self) -> TfliteTensor:
        return next(each for each in reversed(self.tensors) if each.data is None)

    def constant(self, *shape: int) -> str:
        name = f"constant {len(self.tensors)}"
        self.tensors.append(TfliteTensor(name, shape, data=self.random.standard_normal(shape).astype(np.float32)))
        return name

    def numbers(self, *shape: int, values: Sequence[int]) -> str:
        name = f"constant {len(self.tensors)}"
        self.tensors.append(TfliteTensor(name, shape, "INT32", np.array(values, np.int32).reshape(shape)))
        return name

    def add(self, kind: str, operands: Sequence[str], shape: Sequence[int], options: Options = ("", {})) -> str:
        name = f"{kind.lower()} {len(self.tensors)}"
        self.operators.append(TfliteOperator(kind, operands, [name], options))
        self.tensors.append(TfliteTensor(name, shape))
        return name

    def model(self) -> TfliteModel:
        return network(self.tensors, self.operators, ["x"], [self.last.name])


def a_network_of_many_kinds() -> TfliteModel:
    net = TfliteLayers(1, 12, 10, 3)
    window = {"Padding": 0, "StrideH": 2, "StrideW": 1, "FusedActivationFunction": 3}
    first = net.add(
        "CONV_2D", ["x", net.constant(8, 3, 3, 3), net.constant(8)], (1, 6, 10, 8), ("Conv2DOptions", window)
    )
    depth = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1}
    deep = ("DepthwiseConv2DOptions", depth)
    second = net.add("DEPTHWISE_CONV_2D", [first, net.constant(1, 5, 3, 8), net.constant(8)], (1, 6, 10, 8), deep)
    scaled = net.add("MUL", [second, net.constant(8)], (1, 6, 10, 8))
    added = net.add("ADD", [scaled, first], (1, 6, 10, 8))
    joined = net.add("CONCATENATION", [added, second], (1, 6, 10, 16), ("ConcatenationOptions", {"Axis": 3}))
    pool = {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
    pooled = net.add("MAX_POOL_2D", [joined], (1, 3, 5, 16), ("Pool2DOptions", pool))
    slope = net.add("PRELU", [pooled, net.constant(1, 1, 16)], (1, 3, 5, 16))
    up = {"Padding": 0, "StrideH": 2, "StrideW": 2}
    weights = [net.numbers(4, values=[1, 6, 10, 4]), net.constant(4, 3, 3, 16)]
    high = net.add("TRANSPOSE_CONV", [*weights, slope], (1, 6, 10, 4), ("TransposeConvOptions", up))
    padded = net.add("PAD", [high, net.numbers(4, 2, values=[0, 0, 1, 0, 0, 2, 0, 3])], (1, 7, 12, 7))
    cut = net.add(
        "SLICE", [padded, net.numbers(4, values=[0, 1, 2, 3]), net.numbers(4, values=[1, 5, -1, 4])], (1, 5, 10, 4)
    )
    soft = net.add("SOFTMAX", [cut], (1, 5, 10, 4), ("SoftmaxOptions", {"Beta": 1.0}))
    turned = net.add("TRANSPOSE", [soft, net.numbers(4, values=[0, 2, 3, 1])], (1, 10, 4, 5))
    mean = net.add("MEAN", [turned, net.numbers(2, values=[1, 2])], (1, 5), ("ReducerOptions", {"KeepDims": False}))
    net.add("FULLY_CONNECTED", [mean, net.constant(6, 5), net.constant(6)], (1, 6))
    return net.model()


def a_network_of_what_moves_elements() -> TfliteModel:
    """Return slices with steps, splits, mirrored pads, blocks of pixels and resizes over maps."""
    net = TfliteLayers(1, 9, 8, 4)
    pool = {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 3}
    pooled = net.add("AVERAGE_POOL_2D", ["x"], (1, 9, 8, 4), ("Pool2DOptions", pool))
    limits = [net.numbers(4, values=values) for values in ((0, 1, -7, 0), (1, 8, 0, 4), (1, 3, 2, 1))]
    cut = net.add("STRIDED_SLICE", [pooled, *limits], (1, 3, 4, 4), ("StridedSliceOptions", {"EndMask": 4}))
    mirror = net.numbers(4, 2, values=[0, 0, 1, 2, 2, 0, 0, 0])
    mirrored = net.add("MIRROR_PAD", [cut, mirror], (1, 6, 6, 4), ("MirrorPadOptions", {"Mode": 0}))
    blocks = net.add("SPACE_TO_DEPTH", [mirrored], (1, 3, 3, 16), ("SpaceToDepthOptions", {"BlockSize": 2}))
    wide = net.add("DEPTH_TO_SPACE", [blocks], (1, 6, 6, 4), ("DepthToSpaceOptions", {"BlockSize": 2}))
    large = net.add("RESIZE_NEAREST_NEIGHBOR", [wide, net.numbers(2, values=[12, 12])], (1, 12, 12, 4))
    smooth = ("ResizeBilinearOptions", {"HalfPixelCenters": True})
    large = net.add("RESIZE_BILINEAR", [large, net.numbers(2, values=[7, 5])], (1, 7, 5, 4), smooth)
    name = net.add("SPLIT", [net.numbers(values=[3]), large], (1, 7, 5, 2), ("SplitOptions", {"NumSplits": 2}))
    other = TfliteTensor("other half", (1, 7, 5, 2))
    net.operators[-1].outputs = [name, other.name]
    net.tensors.insert(-1, other)
    net.add("SUB", [name, other.name], (1, 7, 5, 2))
    net.add("LOG_SOFTMAX", [net.last.name], (1, 7, 5, 2))
    return net.model()


def bytes_side_by_side() -> TfliteModel:
    """Return int8 operators, each with an output: sums, products, extremes, curves, means, pools, pads and slices."""
    x, z = "x", "z"
    shape = (1, 6, 8, 4)
    tensors = [TfliteTensor(name, shape, "INT8", scale=scale) for name, scale in ((x, 0.05), (z, 0.03))]
    operators: list[TfliteOperator] = []

    def numbers(*values: int, rows: int = 1) -> str:
        name = f"constant {len(tensors)}"
        array = np.array(values, np.int32)
        tensors.append(TfliteTensor(name, array.reshape(rows, -1).shape if rows > 1 else array.shape, "INT32", array))
        return name

    def add(kind: str, operands: Sequence[str], made: Sequence[int], scale: float, options: Options = ("", {})) -> None:
        name = f"{kind.lower()} {len(tensors)}"
        operators.append(TfliteOperator(kind, operands, [name], options))
        tensors.append(TfliteTensor(name, made, "INT8", scale=scale))

    add("ADD", [x, z], shape, 0.07, ("AddOptions", {"FusedActivationFunction": 1}))
    add("SUB", [x, z], shape, 0.06, ("SubOptions", {}))
    add("MUL", [x, z], shape, 0.02, ("MulOptions", {"FusedActivationFunction": 3}))
    add("MAXIMUM", [x, x], shape, 0.05)
    add("TANH", [x], shape, 1 / 128)
    add("RELU", [x], shape, 0.05)
    add("LEAKY_RELU", [x], shape, 0.04, ("LeakyReluOptions", {"Alpha": 0.2}))
    add("HARD_SWISH", [x], shape, 0.03)
    add("MEAN", [x, numbers(1, 2)], (1, 4), 0.03, ("ReducerOptions", {"KeepDims": False}))
    pool = {"Padding": 0, "StrideH": 2, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 2}
    add("AVERAGE_POOL_2D", [x], (1, 3, 8, 4), 0.05, ("Pool2DOptions", pool))
    add("MAX_POOL_2D", [x], (1, 3, 8, 4), 0.05, ("Pool2DOptions", pool))
    add("PAD", [x, numbers(0, 0, 1, 0, 0, 2, 0, 0, rows=4)], (1, 7, 10, 4), 0.05)
    ranges = [numbers(0, 1, -1, 0), numbers(1, 6, -9, 4), numbers(1, 2, -2, 3)]
    masks = {"BeginMask": 1, "EndMask": 9, "ShrinkAxisMask": 0}
    add("STRIDED_SLICE", [x, *ranges], (1, 3, 4, 2), 0.05, ("StridedSliceOptions", masks))
    add("TRANSPOSE", [x, numbers(0, 3, 1, 2)], (1, 4, 6, 8), 0.05)
    return network(tensors, operators, [x, z], [name for operator in operators for name in map(str, operator.outputs)])


SIZE = 6


def floats(name: str, *shape: int) -> TfliteTensor:
    return TfliteTensor(name, shape or (1, SIZE))


def number(name: str, content: int | None = None) -> TfliteTensor:
    return TfliteTensor(name, [], "INT32", None if content is None else np.array(content, np.int32))


def constant(name: str, content: Sequence[float]) -> TfliteTensor:
    array = np.array([content], np.float32)
    return TfliteTensor(name, array.shape, data=array)


def branching() -> TfliteModel:
    """Return y = relu(x) - w if the sum of x is positive, else neg(exp(x))."""
    zero, axes = TfliteTensor("zero", [], data=np.array(0, np.float32)), [0, 1]
    main = TfliteSubgraph(
        [
            floats("x"),
            TfliteTensor("axes", [2], "INT32", np.array(axes, np.int32)),
            TfliteTensor("sum", []),
            zero,
            TfliteTensor("positive", [], "BOOL"),
            floats("chosen"),
            floats("y"),
        ],
        [
            TfliteOperator("SUM", ["x", "axes"], ["sum"], ("ReducerOptions", {"KeepDims": False})),
            TfliteOperator("GREATER", ["sum", "zero"], ["positive"]),
            TfliteOperator(
                "IF", ["positive", "x"], ["chosen"], ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
            ),
            TfliteOperator("ABS", ["chosen"], ["y"]),
        ],
        ["x"],
        ["y"],
    )
    then = TfliteSubgraph(
        [floats("x"), floats("r"), constant("w", range(SIZE)), floats("z")],
        [TfliteOperator("RELU", ["x"], ["r"]), TfliteOperator("SUB", ["r", "w"], ["z"])],
        ["x"],
        ["z"],
        "then",
    )
    otherwise = TfliteSubgraph(
        [floats("x"), floats("e"), floats("z")],
        [TfliteOperator("EXP", ["x"], ["e"]), TfliteOperator("NEG", ["e"], ["z"])],
        ["x"],
        ["z"],
        "else",
    )
    return TfliteModel([main, then, otherwise])


def looping(limit: int | None, *, size: int = SIZE) -> TfliteModel:
    """Return a loop from i = 0 while i < limit: s = tanh(s w + b), i = i + 1; without a limit it is an input.

    The product is a matrix product with constants of the body.
    """
    state = [floats("s", 1, size), number("i"), number("n")]
    inputs = ["x"] if limit is not None else ["x", "n"]
    main = TfliteSubgraph(
        [floats("x", 1, size), number("zero", 0), number("n", limit), floats("y", 1, size), number("j"), number("m")],
        [
            TfliteOperator(
                "WHILE",
                ["x", "zero", "n"],
                ["y", "j", "m"],
                ("WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}),
            )
        ],
        inputs,
        ["y"],
    )
    condition = TfliteSubgraph(
        [*state, TfliteTensor("less", [], "BOOL")],
        [TfliteOperator("LESS", ["i", "n"], ["less"])],
        ["s", "i", "n"],
        ["less"],
        "condition",
    )
    weights = np.linspace(-1, 1, size * size, dtype=np.float32).reshape(size, size)
    body = TfliteSubgraph(
        [
            *state,
            TfliteTensor("w", [size, size], data=weights),
            constant("b", [0.5] * size),
            floats("p", 1, size),
            floats("a", 1, size),
            floats("t", 1, size),
            number("one", 1),
            number("next"),
        ],
        [
            TfliteOperator("FULLY_CONNECTED", ["s", "w", ""], ["p"], ("FullyConnectedOptions", {})),
            TfliteOperator("ADD", ["p", "b"], ["a"], ("AddOptions", {})),
            TfliteOperator("TANH", ["a"], ["t"]),
            TfliteOperator("ADD", ["i", "one"], ["next"], ("AddOptions", {})),
        ],
        ["s", "i", "n"],
        ["t", "next", "n"],
        "body",
    )
    return TfliteModel([main, condition, body])


def handle(name: str) -> tuple[TfliteTensor, TfliteOperator]:
    options = ("VarHandleOptions", {"SharedName": name})
    return TfliteTensor(name, [], "RESOURCE"), TfliteOperator("VAR_HANDLE", [], [name], options)


def with_variables() -> TfliteModel:
    """Return y = v + x scale, which is then assigned to v; CALL_ONCE initialises v and scale; scale stays constant."""
    (v, v_handle), (scale, scale_handle) = handle("v"), handle("scale")
    main = TfliteSubgraph(
        [floats("x"), v, scale, floats("before"), floats("factor"), floats("product"), floats("sum"), floats("y")],
        [
            TfliteOperator("CALL_ONCE", [], [], ("CallOnceOptions", {"InitSubgraphIndex": 1})),
            v_handle,
            scale_handle,
            TfliteOperator("READ_VARIABLE", ["v"], ["before"]),
            TfliteOperator("READ_VARIABLE", ["scale"], ["factor"]),
            TfliteOperator("MUL", ["x", "factor"], ["product"], ("MulOptions", {})),
            TfliteOperator("ADD", ["before", "product"], ["sum"], ("AddOptions", {})),
            TfliteOperator("ASSIGN_VARIABLE", ["v", "sum"], []),
            TfliteOperator("TANH", ["sum"], ["y"]),
        ],
        ["x"],
        ["y"],
    )
    (v, v_handle), (scale, scale_handle) = handle("v"), handle("scale")
    first = TfliteSubgraph(
        [v, scale, constant("zeros", [0.25] * SIZE), constant("twos", [2.0] * SIZE)],
        [
            v_handle,
            scale_handle,
            TfliteOperator("ASSIGN_VARIABLE", ["v", "zeros"], []),
            TfliteOperator("ASSIGN_VARIABLE", ["scale", "twos"], []),
        ],
        [],
        [],
        "first",
    )
    return TfliteModel([main, first])
