"""ONNX kinds of ATen operators, and the attributes that later stages read.

Names are those of the ATen schema, without the overload and without the underscore of the in-place form. An operator
that is not listed keeps its ATen name and has no attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onchip.ir.operator import AttributeValue

if TYPE_CHECKING:
    import torch


Arguments: TypeAlias = Mapping[str, Any]
Attributes: TypeAlias = dict[str, AttributeValue]


def convolution(arguments: Arguments) -> tuple[str, Attributes]:
    """A convolution of any rank."""
    weight = [int(size) for size in arguments["weight"].shape]
    rank = len(weight) - 2
    dilations = _per_dimension(arguments["dilation"], rank)
    attributes: Attributes = {
        "dilations": list(dilations),
        "group": int(arguments["groups"]),
        "kernel_shape": list(weight[2:]),
        "pads": _convolution_pads(arguments["padding"], weight[2:], dilations),
        "strides": list(_per_dimension(arguments["stride"], rank)),
    }
    return "Conv", attributes


def _convolution_pads(
    padding: str | int | Sequence[int], kernel: list[int], dilations: list[int]
) -> list[AttributeValue]:
    """ONNX's order: every dimension's begin, then every dimension's end."""
    if padding == "valid":
        return [0] * (2 * len(kernel))
    if padding == "same":
        totals = [dilation * (size - 1) for size, dilation in zip(kernel, dilations, strict=True)]
        return [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
    return _on_both_sides(_per_dimension([0] if isinstance(padding, str) else padding, len(kernel)))


def transposed_convolution(arguments: Arguments) -> tuple[str, Attributes]:
    """A transposed convolution of any rank."""
    _, attributes = convolution(arguments)
    attributes["output_padding"] = list(_per_dimension(arguments["output_padding"], len(arguments["weight"].shape) - 2))
    return "ConvTranspose", attributes


def any_convolution(arguments: Arguments) -> tuple[str, Attributes]:
    """Return either, as `transposed` says."""
    return (transposed_convolution if arguments["transposed"] else convolution)(arguments)


def pool(kind: str, rank: int) -> Callable[[Arguments], tuple[str, Attributes]]:
    """A pool over so many dimensions."""

    def describe(arguments: Arguments) -> tuple[str, Attributes]:
        kernel = _per_dimension(arguments["kernel_size"], rank)
        strides = _per_dimension(arguments["stride"], rank) if arguments["stride"] else kernel
        attributes: Attributes = {
            "ceil_mode": int(arguments["ceil_mode"]),
            "kernel_shape": list(kernel),
            "pads": _on_both_sides(_per_dimension(arguments["padding"], rank)),
            "strides": list(strides),
        }
        if kind == "MaxPool":
            attributes["dilations"] = list(_per_dimension(arguments["dilation"], rank))
        else:
            attributes["count_include_pad"] = int(arguments["count_include_pad"])
        return kind, attributes

    return describe


def adaptive_pool(kind: str, rank: int) -> Callable[[Arguments], tuple[str, Attributes]]:
    """Pooling to one element is global; to a divisor of the size it has a fixed kernel."""

    def describe(arguments: Arguments) -> tuple[str, Attributes]:
        sizes = [int(size) for size in arguments["self"].shape[-rank:]]
        targets = _per_dimension(arguments["output_size"], rank)
        if all(target == 1 for target in targets):
            return f"Global{kind}", {}
        if any(size % target for size, target in zip(sizes, targets, strict=True)):
            return f"Adaptive{kind}", {"output_size": list(targets)}
        kernel = [size // target for size, target in zip(sizes, targets, strict=True)]
        return kind, {"kernel_shape": list(kernel), "pads": [0] * (2 * rank), "strides": list(kernel)}

    return describe


def _per_dimension(value: int | Sequence[int], rank: int) -> list[int]:
    """One number, or a list of one, stands for every dimension."""
    values = [int(value)] if isinstance(value, int) else [int(each) for each in value]
    return values * rank if len(values) == 1 else values


def _on_both_sides(pads: list[int]) -> list[AttributeValue]:
    return [*pads, *pads]


KINDS: Mapping[str, str] = {
    "__and": "BitwiseAnd",
    "__or": "BitwiseOr",
    "__xor": "BitwiseXor",
    "abs": "Abs",
    "add": "Add",
    "amax": "ReduceMax",
    "celu": "Celu",
    "clone": "Identity",
    "cos": "Cos",
    "cumsum": "CumSum",
    "div": "Div",
    "einsum": "Einsum",
    "embedding": "Gather",
    "erf": "Erf",
    "exp": "Exp",
    "gather": "GatherElements",
    "glu": "Glu",
    "gru": "GRU",
    "hardsigmoid": "HardSigmoid",
    "hardswish": "HardSwish",
    "index_select": "Gather",
    "linear": "Gemm",
    "log": "Log",
    "lstm": "LSTM",
    "maximum": "Max",
    "minimum": "Min",
    "mish": "Mish",
    "mul": "Mul",
    "neg": "Neg",
    "pixel_shuffle": "DepthToSpace",
    "pixel_unshuffle": "SpaceToDepth",
    "pow": "Pow",
    "prelu": "PRelu",
    "relu": "Relu",
    "relu6": "Clip",
    "repeat": "Tile",
    "rsqrt": "Rsqrt",
    "selu": "Selu",
    "sigmoid": "Sigmoid",
    "silu": "Swish",
    "sin": "Sin",
    "softplus": "Softplus",
    "sqrt": "Sqrt",
    "stack": "Concat",
    "sub": "Sub",
    "sum": "ReduceSum",
    "tanh": "Tanh",
    "to": "Cast",
    "_to_copy": "Cast",
    "topk": "TopK",
    "tril": "Trilu",
    "triu": "Trilu",
    "upsample_bicubic2d": "Resize",
    "upsample_bilinear2d": "Resize",
    "upsample_linear1d": "Resize",
    "upsample_nearest1d": "Resize",
    "upsample_nearest2d": "Resize",
    "upsample_nearest3d": "Resize",
    "upsample_trilinear3d": "Resize",
    "where": "Where",
}

OUTPUTS_BEYOND_THE_FIRST_ARE_OPTIONAL = frozenset(
    {
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
        "adaptive_max_pool2d",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "native_batch_norm",
        "native_dropout",
        "native_group_norm",
        "native_layer_norm",
    }
)


def is_dequantisation(name: str) -> bool:
    """Whether the operator makes floating point of integers, by a scale or by many."""
    return name in _SCALED and _SCALED[name] == "DequantizeLinear"


def is_attention(name: str) -> bool:
    """Whether the operator is scaled-dot-product attention, in any of ATen's variants."""
    return name == "scaled_dot_product_attention" or name.startswith("_scaled_dot_product")


def outputs_beyond_the_first_are_optional(name: str) -> bool:
    """Whether the further outputs serve the backward pass only, unless somebody reads them."""
    return name in OUTPUTS_BEYOND_THE_FIRST_ARE_OPTIONAL or name.startswith("_scaled_dot_product")


def kind_and_attributes(name: str, arguments: Arguments) -> tuple[str, Attributes]:
    """The ONNX kind of an ATen operator; `arguments` by their names in the schema."""
    if is_attention(name):
        return _attention(arguments)
    if name in _DESCRIBERS:
        return _DESCRIBERS[name](arguments)
    return KINDS.get(name, name), {}


def shapes(*values: torch.Tensor) -> list[AttributeValue]:
    """The shapes of operands as the operator sees them: views are folded, so the tensors' may be others."""
    return [[int(size) for size in value.shape] for value in values]


def _attention(arguments: Arguments) -> tuple[str, Attributes]:
    operands = [arguments[name] for name in ("query", "key", "value")]
    return "Attention", {"input_shapes": shapes(*operands), "is_causal": int(bool(arguments.get("is_causal")))}


def _scaled(kind: str) -> Callable[[Arguments], tuple[str, Attributes]]:
    """A scale of its own for each element of an axis, or one for all, which may be stated as a number."""

    def describe(arguments: Arguments) -> tuple[str, Attributes]:
        stated = {name: arguments.get(name) for name in ("axis", "scale", "zero_point")}
        return kind, {name: value for name, value in stated.items() if isinstance(value, int | float)}

    return describe


def _matrix_product(kind: str, left: str, right: str) -> Callable[[Arguments], tuple[str, Attributes]]:
    def describe(arguments: Arguments) -> tuple[str, Attributes]:
        return kind, {"input_shapes": shapes(arguments[left], arguments[right])}

    return describe


def _pad(arguments: Arguments) -> tuple[str, Attributes]:
    """ATen pads from the last dimension on, begin and end together."""
    pairs = [int(each) for each in arguments["pad"]]
    unpadded = [0] * (len(arguments["self"].shape) - len(pairs) // 2)
    return "Pad", {"pads": [*unpadded, *pairs[-2::-2], *unpadded, *pairs[::-2]]}


def _activation(kind: str, **names: str) -> Callable[[Arguments], tuple[str, Attributes]]:
    """`names` maps an ONNX attribute to the name of the schema's argument."""

    def describe(arguments: Arguments) -> tuple[str, Attributes]:
        values = {name: arguments[argument] for name, argument in names.items()}
        return kind, {name: value for name, value in values.items() if isinstance(value, int | float | str)}

    return describe


def _reduce_mean(arguments: Arguments) -> tuple[str, Attributes]:
    axes = arguments.get("dim")
    return "ReduceMean", {
        "axes": [int(axis) for axis in axes] if axes else [],
        "keepdims": int(bool(arguments.get("keepdim"))),
    }


def _layer_normalization(arguments: Arguments) -> tuple[str, Attributes]:
    return "LayerNormalization", {"axis": -len(arguments["normalized_shape"]), "epsilon": float(arguments["eps"])}


def _batch_normalization(arguments: Arguments) -> tuple[str, Attributes]:
    return "BatchNormalization", {"epsilon": float(arguments["eps"])}


def _group_normalization(arguments: Arguments) -> tuple[str, Attributes]:
    groups = arguments["num_groups"] if "num_groups" in arguments else arguments["group"]
    return "GroupNormalization", {"epsilon": float(arguments["eps"]), "num_groups": int(groups)}


_SCALED: Mapping[str, str] = {
    f"{verb}_{how}": f"{verb.capitalize()}Linear"
    for verb in ("quantize", "dequantize")
    for how in ("per_tensor", "per_channel", "affine")
}
_DESCRIBERS: Mapping[str, Callable[[Arguments], tuple[str, Attributes]]] = {
    "_log_softmax": _activation("LogSoftmax", axis="dim"),
    "_native_batch_norm_legit": _batch_normalization,
    "_native_batch_norm_legit_no_training": _batch_normalization,
    "_softmax": _activation("Softmax", axis="dim"),
    **{name: _scaled(kind) for name, kind in _SCALED.items()},
    "addmm": _matrix_product("Gemm", "mat1", "mat2"),
    "adaptive_avg_pool1d": adaptive_pool("AveragePool", 1),
    "adaptive_avg_pool2d": adaptive_pool("AveragePool", 2),
    "adaptive_avg_pool3d": adaptive_pool("AveragePool", 3),
    "_adaptive_avg_pool2d": adaptive_pool("AveragePool", 2),
    "_adaptive_avg_pool3d": adaptive_pool("AveragePool", 3),
    "adaptive_max_pool2d": adaptive_pool("MaxPool", 2),
    "avg_pool1d": pool("AveragePool", 1),
    "avg_pool2d": pool("AveragePool", 2),
    "avg_pool3d": pool("AveragePool", 3),
    "baddbmm": _matrix_product("Gemm", "batch1", "batch2"),
    "batch_norm": _batch_normalization,
    "bmm": _matrix_product("MatMul", "self", "mat2"),
    "cat": _activation("Concat", axis="dim"),
    "clamp": _activation("Clip", min="min", max="max"),
    "constant_pad_nd": _pad,
    "conv1d": convolution,
    "conv2d": convolution,
    "conv3d": convolution,
    "conv_transpose1d": transposed_convolution,
    "conv_transpose2d": transposed_convolution,
    "conv_transpose3d": transposed_convolution,
    "convolution": any_convolution,
    "elu": _activation("Elu", alpha="alpha"),
    "gelu": _activation("Gelu", approximate="approximate"),
    "group_norm": _group_normalization,
    "hardtanh": _activation("Clip", min="min_val", max="max_val"),
    "layer_norm": _layer_normalization,
    "leaky_relu": _activation("LeakyRelu", alpha="negative_slope"),
    "log_softmax": _activation("LogSoftmax", axis="dim"),
    "matmul": _matrix_product("MatMul", "self", "other"),
    "max_pool1d": pool("MaxPool", 1),
    "max_pool2d": pool("MaxPool", 2),
    "max_pool2d_with_indices": pool("MaxPool", 2),
    "max_pool3d": pool("MaxPool", 3),
    "max_pool3d_with_indices": pool("MaxPool", 3),
    "mean": _reduce_mean,
    "mm": _matrix_product("MatMul", "self", "mat2"),
    "native_batch_norm": _batch_normalization,
    "native_group_norm": _group_normalization,
    "native_layer_norm": _layer_normalization,
    "pad": _pad,
    "softmax": _activation("Softmax", axis="dim"),
}
