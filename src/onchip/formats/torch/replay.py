"""Run an exported program on the meta device: sizes for its symbols, true storages, and no values.

Names are those of the ATen schema, without the overload and without the underscore of the in-place form. An operator
that is not listed keeps its ATen name and has no attributes.

Two values share bytes exactly if they share a storage, so the result of an operator shows whether it is a view.
Bindings give sizes to symbols, and the remaining symbols are listed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import sympy
import torch
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, TensorArgument
from torch.utils._pytree import tree_leaves, tree_map

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, OpenDimension, UsageError
from onchip.formats.torch.recording import (
    RecordedCall,
    Recording,
    bytes_of,
    covers_its_storage,
    is_in_order,
    storage_of,
)
from onchip.ir.operator import AttributeValue
from onchip.ir.tensor import Role

Arguments: TypeAlias = Mapping[str, Any]
Attributes: TypeAlias = dict[str, AttributeValue]
Describer: TypeAlias = Callable[[Arguments], tuple[str, Attributes]]


def convolution(arguments: Arguments) -> tuple[str, Attributes]:
    """Return kind and attributes of a convolution of any rank, also a transposed one."""
    kernel = [int(size) for size in arguments["weight"].shape[2:]]
    dilations, padding = _per_dimension(arguments["dilation"], len(kernel)), arguments["padding"]
    if padding == "same":
        totals = [dilation * (size - 1) for size, dilation in zip(kernel, dilations, strict=True)]
        pads = [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
    else:
        pads = 2 * _per_dimension([0] if isinstance(padding, str) else padding, len(kernel))
    attributes: Attributes = {
        "dilations": [*dilations],
        "group": int(arguments["groups"]),
        "kernel_shape": [*kernel],
        "pads": [*pads],
        "strides": [*_per_dimension(arguments["stride"], len(kernel))],
    }
    if not arguments.get("transposed", "output_padding" in arguments):
        return "Conv", attributes
    return "ConvTranspose", attributes | {"output_padding": [*_per_dimension(arguments["output_padding"], len(kernel))]}


def pool(kind: str, rank: int) -> Describer:
    """Return a function that describes a pool over `rank` dimensions."""

    def describe(arguments: Arguments) -> tuple[str, Attributes]:
        kernel = _per_dimension(arguments["kernel_size"], rank)
        attributes: Attributes = {
            "ceil_mode": int(arguments["ceil_mode"]),
            "kernel_shape": [*kernel],
            "pads": [*2 * _per_dimension(arguments["padding"], rank)],
            "strides": [*(_per_dimension(arguments["stride"], rank) if arguments["stride"] else kernel)],
        }
        if kind == "MaxPool":
            return kind, attributes | {"dilations": [*_per_dimension(arguments["dilation"], rank)]}
        return kind, attributes | {"count_include_pad": int(arguments["count_include_pad"])}

    return describe


def adaptive_pool(kind: str, rank: int) -> Describer:
    """Return a function that describes an adaptive pool: global, of a fixed kernel, or adaptive."""

    def describe(arguments: Arguments) -> tuple[str, Attributes]:
        sizes = [int(size) for size in arguments["self"].shape[-rank:]]
        targets = _per_dimension(arguments["output_size"], rank)
        if all(target == 1 for target in targets):
            return f"Global{kind}", {}
        if any(size % target for size, target in zip(sizes, targets, strict=True)):
            return f"Adaptive{kind}", {"output_size": [*targets]}
        kernel = [size // target for size, target in zip(sizes, targets, strict=True)]
        return kind, {"kernel_shape": [*kernel], "pads": [0] * (2 * rank), "strides": [*kernel]}

    return describe


def _per_dimension(value: int | Sequence[int], rank: int) -> list[int]:
    """Return one number per dimension; one number, or a list of one, stands for all."""
    values = [int(value)] if isinstance(value, int) else [int(each) for each in value]
    return values * rank if len(values) == 1 else values


_SAME_NAME: Final = (
    *("Abs", "Add", "Celu", "Cos", "CumSum", "Div", "Einsum", "Erf", "Exp", "Glu", "GRU", "HardSigmoid", "HardSwish"),
    *("Log", "LSTM", "Mish", "Mul", "Neg", "Pow", "PRelu", "Relu", "Rsqrt", "Selu", "Sigmoid", "Sin", "Softplus"),
    *("Sqrt", "Sub", "Tanh", "TopK", "Where"),
)
KINDS: Final[Mapping[str, str]] = {
    **{kind.lower(): kind for kind in _SAME_NAME},
    "__and": "BitwiseAnd", "__or": "BitwiseOr", "__xor": "BitwiseXor", "amax": "ReduceMax", "sum": "ReduceSum",
    "clone": "Identity", "gather": "GatherElements", "linear": "Gemm", "maximum": "Max", "minimum": "Min",
    "pixel_shuffle": "DepthToSpace", "pixel_unshuffle": "SpaceToDepth", "relu6": "Clip", "repeat": "Tile",
    "silu": "Swish", "stack": "Concat", "to": "Cast", "_to_copy": "Cast", "tril": "Trilu", "triu": "Trilu",
    **dict.fromkeys(("embedding", "index_select"), "Gather"),
    **dict.fromkeys(("upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d"), "Resize"),
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), "Resize"),
    "upsample_trilinear3d": "Resize",
}  # fmt: skip
_OPTIONAL_OUTPUTS: Final = frozenset(
    {"_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "adaptive_max_pool2d", "native_batch_norm"}
    | {"max_pool2d_with_indices", "max_pool3d_with_indices", "native_dropout", "native_group_norm", "native_layer_norm"}
)
"""Operators whose outputs beyond the first serve only the backward pass, unless they are read."""


def is_attention(name: str) -> bool:
    """Return True if the operator is a variant of scaled-dot-product attention."""
    return name == "scaled_dot_product_attention" or name.startswith("_scaled_dot_product")


def kind_and_attributes(name: str, arguments: Arguments) -> tuple[str, Attributes]:
    """Return the ONNX kind and attributes of an ATen operator; `arguments` by their names in the schema."""
    if is_attention(name):
        seen = shapes(*(arguments[name] for name in ("query", "key", "value")))
        return "Attention", {"input_shapes": seen, "is_causal": int(bool(arguments.get("is_causal")))}
    describe = _DESCRIBERS.get(name)
    return (KINDS.get(name, name), {}) if describe is None else describe(arguments)


def shapes(*values: torch.Tensor) -> list[AttributeValue]:
    """Return the shapes of operands as the operator reads them; folded views may differ from their tensors."""
    return [[int(size) for size in value.shape] for value in values]


def _plain(kind: str, **names: str) -> Describer:
    """Return a function that describes an operator by plain arguments; `names` maps ONNX attributes to them."""
    return lambda arguments: (
        kind,
        {name: value for name, of in names.items() if isinstance(value := arguments.get(of), int | float | str)},
    )


def _matrix_product(kind: str, left: str, right: str) -> Describer:
    return lambda arguments: (kind, {"input_shapes": shapes(arguments[left], arguments[right])})


def _pad(arguments: Arguments) -> tuple[str, Attributes]:
    """Return the pads in ONNX's order; ATen pads from the last dimension, begin and end together."""
    pairs = [int(each) for each in arguments["pad"]]
    unpadded = [0] * (len(arguments["self"].shape) - len(pairs) // 2)
    return "Pad", {"pads": [*unpadded, *pairs[-2::-2], *unpadded, *pairs[::-2]]}


_DEQUANTISING: Final = frozenset(f"dequantize_{how}" for how in ("per_tensor", "per_channel", "affine"))
"""Operators that convert integers to floating point with one scale, or one for each index of an axis."""
_DESCRIBERS: Final[Mapping[str, Describer]] = {
    **{
        name: _plain(
            f"{name.partition('_')[0].capitalize()}Linear", axis="axis", scale="scale", zero_point="zero_point"
        )
        for name in (*_DEQUANTISING, *(one.removeprefix("de") for one in _DEQUANTISING))
    },
    **dict.fromkeys(("softmax", "_softmax"), _plain("Softmax", axis="dim")),
    **dict.fromkeys(("log_softmax", "_log_softmax"), _plain("LogSoftmax", axis="dim")),
    "cat": _plain("Concat", axis="dim"),
    "clamp": _plain("Clip", min="min", max="max"),
    "elu": _plain("Elu", alpha="alpha"),
    "gelu": _plain("Gelu", approximate="approximate"),
    "hardtanh": _plain("Clip", min="min_val", max="max_val"),
    "leaky_relu": _plain("LeakyRelu", alpha="negative_slope"),
    **{
        f"{name}batch_norm{how}": _plain("BatchNormalization", epsilon="eps")
        for name, how in (("", ""), ("native_", ""), ("_native_", "_legit"), ("_native_", "_legit_no_training"))
    },
    "group_norm": _plain("GroupNormalization", epsilon="eps", num_groups="num_groups"),
    "native_group_norm": _plain("GroupNormalization", epsilon="eps", num_groups="group"),
    **dict.fromkeys(
        ("layer_norm", "native_layer_norm"),
        lambda arguments: (
            "LayerNormalization",
            {"axis": -len(arguments["normalized_shape"]), "epsilon": float(arguments["eps"])},
        ),
    ),
    "mean": lambda arguments: (
        "ReduceMean",
        {"axes": [int(axis) for axis in arguments.get("dim") or ()], "keepdims": int(bool(arguments.get("keepdim")))},
    ),
    "addmm": _matrix_product("Gemm", "mat1", "mat2"),
    "baddbmm": _matrix_product("Gemm", "batch1", "batch2"),
    "matmul": _matrix_product("MatMul", "self", "other"),
    **dict.fromkeys(("bmm", "mm"), _matrix_product("MatMul", "self", "mat2")),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    "convolution": convolution,
    **{f"conv{way}{rank}d": convolution for way in ("", "_transpose") for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": pool("AveragePool", rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": pool("MaxPool", rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d_with_indices": pool("MaxPool", rank) for rank in (2, 3)},
    **{f"adaptive_avg_pool{rank}d": adaptive_pool("AveragePool", rank) for rank in (1, 2, 3)},
    **{f"_adaptive_avg_pool{rank}d": adaptive_pool("AveragePool", rank) for rank in (2, 3)},
    "adaptive_max_pool2d": adaptive_pool("MaxPool", 2),
}


Size: TypeAlias = Any
"""A number, or torch's symbolic integer."""
Sizes: TypeAlias = Mapping[str, int]
"""The sizes of symbols, by their names."""
_SIZES: Final = ((224, 512), (640, 16000), (48, 128), (32, 576), (320, 256), (64, 64), (299, 1024), (16, 10), (2, 2))
"""Rows and columns of images, and lengths of sequences, in the order in which they are tried."""


def fixed(size: Size, sizes: Sizes, place: str) -> int:
    """Return the size as a number; raises GraphError for an unbound symbol."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    value = expression.subs({symbol: sizes[symbol.name] for symbol in _symbols(expression) if symbol.name in sizes})
    if not value.is_Integer:
        raise GraphError(f"its size {expression} is not fixed", place, "fixed shapes")
    return int(value)


@dataclass(frozen=True, slots=True)
class OpenShapes:
    """The shapes of a program's inputs by name, and the smallest and largest size of each symbol."""

    shapes: Mapping[str, tuple[Size, ...]]
    ranges: Mapping[str, tuple[int, int | None]]

    @classmethod
    def of(cls, program: torch.export.ExportedProgram) -> OpenShapes:
        """Return the shapes of the inputs that are tensors and come from the user."""
        nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        specs = (one for one in program.graph_signature.input_specs if one.kind is InputKind.USER_INPUT)
        given = [one.arg.name for one in specs if isinstance(one.arg, TensorArgument)]
        values = {name: nodes[name].meta.get("val") for name in given}
        shapes = {name: tuple(value.shape) for name, value in values.items() if isinstance(value, torch.Tensor)}
        ranges = {
            str(symbol): (_number(found.lower) or 0, _number(found.upper))
            for symbol, found in program.range_constraints.items()
        }
        return cls(shapes, ranges)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of all symbols, in the order of the inputs."""
        return tuple(dict.fromkeys(symbol for _, _, size in self._open() for symbol in _names(size)))

    def open_dimensions(self, sizes: Sizes) -> tuple[OpenDimension, ...]:
        """Return the dimensions that these sizes leave open, each with its first unbound symbol."""
        missing = [(name, axis, [one for one in _names(size) if one not in sizes]) for name, axis, size in self._open()]
        return tuple(OpenDimension(name, axis, symbols[0]) for name, axis, symbols in missing if symbols)

    def sizes(self, bindings: Bindings) -> dict[str, int]:
        """Return the sizes of bound symbols; raises UsageError for unknown names and impossible sizes."""
        if bindings.values:
            raise UsageError("an exported program has no inputs of one value", "values", "`shapes`")
        sizes = dict(bindings.dims)
        for symbol in bindings.dims:
            if symbol not in self.symbols:
                known = ", ".join(map(repr, self.symbols)) or "none: all its shapes are fixed"
                raise UsageError("no input has this symbol", f"dims {symbol}", known)
        for name, shape in bindings.shapes.items():
            self._add_sizes(name, shape, sizes)
        for name, shape in bindings.shapes.items():
            self._agrees(name, shape, sizes)
        for symbol, size in sizes.items():
            least, greatest = self.ranges.get(symbol, (0, None))
            if size < max(least, 1) or (greatest is not None and size > greatest):
                expected = f"at least {max(least, 1)}" if greatest is None else f"{max(least, 1)} to {greatest}"
                raise UsageError(f"symbol {symbol!r} is {size}", f"dims {symbol}", expected)
        return sizes

    def candidates(self, sizes: Sizes) -> Iterator[dict[str, int]]:
        """Yield sizes for all remaining symbols, with the smallest possible batches."""
        axes = {symbol: (axis, len(self.shapes[name])) for name, axis, size in self._open() for symbol in _names(size)}
        first = {symbol for name, axis, size in self._open() if axis == 0 for symbol in _names(size)}
        for rows, length in _SIZES:
            guess = dict(sizes)
            for symbol in self.symbols:
                wanted = 1 if symbol in first else rows if axes[symbol][1] > 3 else length
                least, greatest = self.ranges.get(symbol, (0, None))
                guess.setdefault(symbol, max(least, wanted if greatest is None else min(wanted, greatest)))
            yield guess

    def _open(self) -> Iterator[tuple[str, int, Size]]:
        for name, shape in self.shapes.items():
            yield from ((name, axis, size) for axis, size in enumerate(shape) if not isinstance(size, int))

    def _add_sizes(self, name: str, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
        """Add the sizes of symbols that follow from the shape of an input; raises UsageError."""
        place = f"shapes {name}"
        if name not in self.shapes:
            known = ", ".join(map(repr, self.shapes)) or "none: it has no inputs"
            raise UsageError("no network input has this name", place, known)
        if len(shape) != len(self.shapes[name]) or min(shape, default=1) < 1:
            raise UsageError(f"its shape is {list(shape)}", place, f"{len(self.shapes[name])} sizes of at least 1")
        for size, said in zip(self.shapes[name], shape, strict=True):
            if not isinstance(size, int) and len(names := _names(size)) == 1 and names[0] not in sizes:
                (symbol,) = _symbols(size.node.expr)
                found = [each for each in sympy.solve(size.node.expr - said, symbol) if each.is_Integer and each >= 0]
                if found:
                    sizes[names[0]] = int(found[0])

    def _agrees(self, name: str, shape: tuple[int, ...], sizes: Sizes) -> None:
        for axis, (size, said) in enumerate(zip(self.shapes[name], shape, strict=True)):
            if not isinstance(size, int) and any(one not in sizes for one in _names(size)):
                what = f"axis {axis} is {size.node.expr}, which {said} is not"
                raise UsageError(what, f"shapes {name}", "a size that can be")
            if (found := fixed(size, sizes, name)) != said:
                sizes_used = "" if isinstance(size, int) else ", ".join(f"{one} = {sizes[one]}" for one in _names(size))
                known = f"with {sizes_used}" if sizes_used else "in the file"
                raise UsageError(f"axis {axis} is {found} {known}", f"shapes {name}", f"{found}, not {said}")


def _number(bound: Size) -> int | None:
    """Return a bound of torch as a number; None for infinity."""
    return int(bound) if isinstance(bound, int) or getattr(bound, "is_Integer", False) else None


def _symbols(expression: Size) -> list[sympy.Symbol]:
    return sorted(expression.free_symbols, key=lambda symbol: symbol.name)


def _names(size: Size) -> list[str]:
    return [symbol.name for symbol in _symbols(size.node.expr)]


STATES: Final = frozenset({OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION})
"""Outputs that are the next values of inputs and buffers."""
RESULTS: Final = frozenset(
    {OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT}
    | {OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT}
)
"""Outputs of the network; a training step has its loss and its gradients."""


Value: TypeAlias = Any
"""A value of a program: tensors, numbers, and lists of these."""
_OF_NUMBERS: Final = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod, operator.neg),
        *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_),
        *(operator.not_, operator.xor, operator.abs, operator.pos, torch.sym_max, torch.sym_min, torch.sym_not),
        *(torch.sym_int, torch.sym_float, torch.sym_ite, math.ceil, math.floor, math.trunc),
    }
)
"""Functions that a program applies to its sizes, besides its operators."""


def readable_name(node: torch.fx.Node, operation: str) -> str:
    """Return the module path and the operation, or the path alone if the module is named for the operation."""
    stack: Mapping[str, tuple[str, object]] = node.meta.get("nn_module_stack") or {}
    path, module_type = list(stack.values())[-1] if stack else ("", "")
    path = path.removeprefix("L['self']").removeprefix(".")
    type_name = module_type.__name__ if isinstance(module_type, type) else str(module_type).rpartition(".")[2]
    if path and type_name.lower().startswith(operation.replace("_", "")):
        return path
    return f"{path}.{operation}" if path else operation


def by_name(schema: torch.FunctionSchema, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Value]:
    """Return the arguments of a call by the schema's names, with defaults."""
    given = dict(zip((each.name for each in schema.arguments), args, strict=False)) | dict(kwargs)
    return {each.name: given.get(each.name, each.default_value) for each in schema.arguments}


def of_numbers(function: Value, args: Sequence[Value], place: str) -> Value:
    """Apply a function to sizes, or an index to a list; raises GraphError for any other function."""
    if function is operator.getitem and len(args) == 2 and isinstance(args[0], Sequence) and isinstance(args[1], int):
        return args[0][args[1]]
    if function not in _OF_NUMBERS or not all(isinstance(each, int | float) for each in args):
        raise GraphError(f"it runs {function}", place, "operators, and sums of sizes")
    return function(*args)


def is_map(leaf: object) -> bool:
    """Return True if the leaf is a tensor with elements."""
    return isinstance(leaf, torch.Tensor) and leaf.numel() > 0


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its class."""
    return next(iter(str(error).splitlines()), type(error).__name__)


META: Final = torch.device("meta")
OVERWRITING = frozenset({"copy", "fill", "zero"})


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Sizes for the symbols of a program, and the form of its operators.

    With `expand_attention`, attention becomes several operators. With `as_onnx`, a permuted map becomes the result of a
    Transpose instead of a view, and results of parameters alone become parameters.
    """

    sizes: Sizes = field(default_factory=dict)
    expand_attention: bool = False
    as_onnx: bool = False


class ExportReplay:
    """A run of an exported program, and its recording."""

    def __init__(self, program: torch.export.ExportedProgram, options: ReplayOptions, states: Collection[str]) -> None:
        self._program = program
        self._options = options
        self._states = states
        self._recording = Recording()
        self._values: dict[torch.fx.Node, Value] = {}
        self._shadows: dict[int, torch.Tensor] = {}
        self._given: dict[str, torch.Tensor] = {}

    @property
    def written_in_place(self) -> frozenset[str]:
        """Names of the inputs and buffers whose value the program changes."""
        names = self._given.items()
        return frozenset(name for name, value in names if self._recording.held_by(value).name != name)

    def recording(self) -> Recording:
        """Run every node and return the recording; raises GraphError for dependence on values or unknown shapes."""
        inputs = iter(self._program.graph_signature.input_specs)
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._placeholder(node, next(inputs))
            elif node.op == "get_attr":
                value = getattr(self._program.graph_module, node.target)
                is_tensor = isinstance(value, torch.Tensor)
                self._values[node] = self._parameter(node.target, value, value) if is_tensor else value
            elif node.op == "call_function":
                self._values[node] = self._call(node)
            elif node.op == "output":
                self._note_outputs(node)
        return self._recording

    def _placeholder(self, node: torch.fx.Node, spec: InputSpec) -> object:
        """Return a network input or a parameter without its values; a constant argument itself."""
        if isinstance(spec.arg, ConstantArgument):
            return spec.arg.value
        value = node.meta.get("val")
        place = f"input {spec.target or node.name!r}"
        if not isinstance(value, torch.Tensor):
            raise GraphError("it is no tensor", place, "tensors and constants")
        sizes, strides = (
            [fixed(size, self._options.sizes, place) for size in one] for one in (value.shape, value.stride())
        )
        value = self._as_written(torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta"))
        name = node.name if spec.kind is InputKind.USER_INPUT else spec.target
        if spec.kind is not InputKind.USER_INPUT and name not in self._states:
            value = self._parameter(name, value, self._held(spec))
        else:
            self._recording.add_tensor(name, value, Role.INPUT)
            if isinstance(held := self._held(spec), torch.Tensor):
                self._recording.held[name] = value, held
        if self._recording.knows(value):
            self._given.setdefault(self._recording.held_by(value).name, value)
        return value

    def _held(self, spec: InputSpec) -> object:
        """Return the real tensor of a parameter or a buffer; None for a user input."""
        if spec.target is None or spec.kind is InputKind.USER_INPUT:
            return None
        return self._program.state_dict.get(spec.target, self._program.constants.get(spec.target))

    def _parameter(self, name: str, value: torch.Tensor, held: object) -> torch.Tensor:
        """Return a parameter without values; parameters whose real tensors `held` share a storage are one."""
        storage = storage_of(held) if isinstance(held, torch.Tensor) else None
        known = self._shadows.get(storage) if storage is not None else None
        if known is not None and known.numel() == value.numel():
            return known.as_strided(value.shape, value.stride())
        shadow = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        if storage is not None:
            self._shadows[storage] = shadow
        if shadow.numel() > 0:
            self._recording.add_tensor(name, shadow, Role.PARAMETER)
            if isinstance(held, torch.Tensor):
                self._recording.held[name] = shadow, held
        return shadow

    def _call(self, node: torch.fx.Node) -> object:
        args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda each: self._values[each])
        target, place = node.target, f"node {node.name!r}"
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise GraphError(f"the operator {target} runs other graphs", place, "a program without")
        if not isinstance(target, torch._ops.OpOverload):
            return of_numbers(target, args, place)
        arguments = by_name(target._schema, args, kwargs)
        if arguments.get("device", target) is None:  # else it makes its tensor where there would be values
            kwargs = {**kwargs, "device": META}
        try:
            args, kwargs = tree_map(lambda leaf: META if isinstance(leaf, torch.device) else leaf, (args, kwargs))
            result = target(*args, **kwargs)
        except Exception as error:
            what = f"{target} cannot run without values: {first_line(error)}"
            raise GraphError(what, place, "operators that need shapes only") from error
        result = tree_map(self._as_written, result)
        is_identity = "dropout" in target._schema.name and arguments.get("train") is False
        if torch.Tag.inplace_view not in target.tags and not is_identity:
            self._record(node, arguments, result)
        return result

    def _record(self, node: torch.fx.Node, arguments: Arguments, result: object) -> None:
        """Record the operator, unless its results are views."""
        target = node.target
        schema = target._schema
        written = [arguments[each.name] for each in schema.arguments if each.is_write]
        mutated = [value for value in written if isinstance(value, torch.Tensor)]
        maps = {place: leaf for place, leaf in enumerate(tree_leaves(result)) if is_map(leaf)}
        fresh = {place: leaf for place, leaf in maps.items() if not self._recording.knows(leaf)}
        if not mutated and self._folds_by_its_schema(schema, arguments, list(fresh.values())):
            return
        operation = schema.name.rpartition("::")[2].rstrip("_")
        if self._is_dequantised_weight(target, operation, arguments, result):
            return
        name = self._recording.unique_name(readable_name(node, operation))
        if self._options.expand_attention and is_attention(operation):
            self._record_attention(name, arguments, fresh[0])
            return
        called = self._call_on_real_values(target, arguments)
        overwritten = mutated[:1] if operation in OVERWRITING and mutated and covers_its_storage(mutated[0]) else []
        called = replace(called, overwritten=frozenset(self._recording.viewed(one).tensor for one in overwritten))
        reads = [value for value in arguments.values() if not any(value is each for each in overwritten)]
        reads = [value if any(value is each for each in mutated) else self._readable(value) for value in reads]
        operands, leaves = self._recording.operands(reads), self._recording.leaves(reads)
        if self._options.as_onnx and not mutated and self._is_known(target, operands):
            known = {i: self._recording.add_tensor(_part(name, i), leaf, Role.PARAMETER) for i, leaf in fresh.items()}
            self._recording.note_call(replace(called, results=tuple(known.items())))
            return
        seen = self._recording.views_seen(leaves)
        versions = [self._recording.add_version(_part(name, i), value) for i, value in enumerate(mutated)]
        results = {i: self._recording.add_tensor(_part(name, i), leaf) for i, leaf in fresh.items()}
        outputs = [*versions, *results.values()]
        places = [each.name for each in schema.arguments if each.is_write and is_map(arguments[each.name])]
        in_place = tuple(zip(places, versions, strict=False))
        self._recording.note_call(replace(called, written=in_place, results=tuple(results.items())))
        if operation in _OPTIONAL_OUTPUTS or operation.startswith("_scaled_dot_product"):
            self._recording.optional.update(outputs[1:])
        kind, attributes = kind_and_attributes(operation, arguments)
        writes_a_part = any(not (covers_its_storage(each) and is_in_order(each)) for each in mutated)
        kind = operation if writes_a_part else kind
        self._recording.add_operator(name, kind, operands, outputs, seen | attributes)

    def _call_on_real_values(self, target: torch._ops.OpOverload, arguments: Arguments) -> RecordedCall:
        """Return the call with its operands in memory order, except those that it writes in place."""
        in_place = {each.name for each in target._schema.arguments if each.is_write}
        recorded = {
            name: self._recording.viewed(value if name in in_place else self._readable(value))
            for name, value in arguments.items()
        }
        return RecordedCall(target, recorded)

    def _is_known(self, target: torch._ops.OpOverload, operands: list[str]) -> bool:
        """Return True if the results are the same in every inference."""
        roles = {self._recording.tensors[name].role for name in operands}
        return roles <= {Role.PARAMETER} and torch.Tag.nondeterministic_seeded not in target.tags

    def _folds_by_its_schema(
        self, schema: torch.FunctionSchema, arguments: Arguments, results: list[torch.Tensor]
    ) -> bool:
        """Return True if the call has no new result, or its schema lets the result be the argument with its bytes."""
        sources = [arguments[each.name] for each in schema.arguments if each.alias_info is not None]
        if not results:
            return True
        may_alias = any(each.alias_info is not None for each in schema.returns) and len(sources) == 1
        if not may_alias or not isinstance(source := sources[0], torch.Tensor):
            return False
        size_bytes = self._recording.held_by(source).size_bytes
        if any(source.dtype != each.dtype or bytes_of(each) != size_bytes for each in results):
            return False
        for result in results:
            self._recording.hold_the_same(self._readable(source), result)
        return True

    def _readable(self, value: Value) -> Value:
        """Return the value, or each of a list of values, with its elements in memory order."""
        if not self._options.as_onnx:
            return value
        return tree_map(lambda leaf: self._recording.in_order(leaf) if is_map(leaf) else leaf, value)

    def _as_written(self, leaf: Value) -> Value:
        """Return a new tensor in memory order; torch would keep the order of permuted operands."""
        if not self._options.as_onnx or not is_map(leaf) or self._recording.knows(leaf) or leaf.is_contiguous():
            return leaf
        return torch.empty(leaf.shape, dtype=leaf.dtype, device="meta")

    def _is_dequantised_weight(
        self, target: torch._ops.OpOverload, operation: str, arguments: Arguments, result: object
    ) -> bool:
        """Record a dequantised weight as the stored weight followed by its scales; return False for other calls."""
        operands = self._recording.operands(arguments.values())
        roles = {self._recording.tensors[name].role for name in operands}
        if operation not in _DEQUANTISING or roles != {Role.PARAMETER}:
            return False
        weight = next(value for value in arguments.values() if isinstance(value, torch.Tensor))
        called = replace(self._call_on_real_values(target, arguments), results=((0, operation),))
        for leaf in self._recording.leaves([result]):
            self._recording.hold_the_same(weight, leaf)
            self._recording.scales[storage_of(leaf)] = operands[1:]
            self._recording.dequantised[storage_of(leaf)] = called
        return True

    def _record_attention(self, name: str, arguments: Arguments, result: torch.Tensor) -> None:
        """Record softmax(query key^T + mask) value as separate operators; the first includes the scale."""
        query, key, value = arguments["query"], arguments["key"], arguments["value"]
        scores = (*query.shape[:-1], key.shape[-2])
        mask = arguments.get("attn_mask", arguments.get("attn_bias"))
        matmul: dict[str, AttributeValue] = {"input_shapes": shapes(query, key)}
        steps: list[tuple[str, str, list[torch.Tensor], dict[str, AttributeValue]]] = [
            (f"{name}.scores", "MatMul", [query, key], matmul),
            *([(f"{name}.masked", "Add", [mask], {})] if mask is not None else []),
            (f"{name}.weights", "Softmax", [], {"axis": -1}),
        ]
        before: list[str] = []
        for label, kind, values, attributes in steps:
            step = self._recording.unique_name(label)
            reads = [*before, *self._recording.operands(self._readable(values))]
            weights = torch.empty(scores, dtype=query.dtype, device="meta")
            before = [self._recording.add_tensor(step, weights)]
            self._recording.add_operator(step, kind, reads, before, attributes)
        reads = [*before, *self._recording.operands([self._readable(value)])]
        attributes = {"input_shapes": shapes(weights, value)}
        self._recording.add_operator(name, "MatMul", reads, [self._recording.add_tensor(name, result)], attributes)

    def _note_outputs(self, node: torch.fx.Node) -> None:
        """Record states, then outputs; an Identity copies inputs, parameters and their views once."""
        specs = self._program.graph_signature.output_specs
        results = [self._values.get(each) if isinstance(each, torch.fx.Node) else None for each in node.args[0]]
        written = {spec.target: value for spec, value in zip(specs, results, strict=True) if spec.kind in STATES}
        for name in self._given:
            if name in self._states:
                self._recording.add_state(name, self._readable(written.get(name, self._given[name])))
        for spec, value in zip(specs, results, strict=True):
            if spec.kind in RESULTS and isinstance(value, torch.Tensor):
                self._recording.add_output(spec.arg.name, self._readable(value))


def _part(name: str, place: int) -> str:
    return f"{name}.{place}" if place else name
