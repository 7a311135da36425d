"""ONNX kinds of ATen operators, and the attributes that later stages read.

Names are those of the ATen schema, without the overload and without the underscore of the in-place form. An operator
that is not listed keeps its ATen name and has no attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onchip.ir.operator import AttributeValue

if TYPE_CHECKING:
    import torch


Arguments: TypeAlias = Mapping[str, Any]
Attributes: TypeAlias = dict[str, AttributeValue]
Describer: TypeAlias = Callable[[Arguments], tuple[str, Attributes]]


def convolution(arguments: Arguments) -> tuple[str, Attributes]:
    """Return kind and attributes of a convolution of any rank."""
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
    """Return the pads in ONNX's order: the begins of all dimensions, then the ends."""
    if padding == "valid":
        return [0] * (2 * len(kernel))
    if padding == "same":
        totals = [dilation * (size - 1) for size, dilation in zip(kernel, dilations, strict=True)]
        return [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
    return _on_both_sides(_per_dimension([0] if isinstance(padding, str) else padding, len(kernel)))


def transposed_convolution(arguments: Arguments) -> tuple[str, Attributes]:
    """Return kind and attributes of a transposed convolution of any rank."""
    _, attributes = convolution(arguments)
    attributes["output_padding"] = list(_per_dimension(arguments["output_padding"], len(arguments["weight"].shape) - 2))
    return "ConvTranspose", attributes


def any_convolution(arguments: Arguments) -> tuple[str, Attributes]:
    """Return kind and attributes of a convolution, transposed if `transposed` is set."""
    return (transposed_convolution if arguments["transposed"] else convolution)(arguments)


def pool(kind: str, rank: int) -> Describer:
    """Return a function that describes a pool over `rank` dimensions."""

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


def adaptive_pool(kind: str, rank: int) -> Describer:
    """Return a function that describes an adaptive pool: global, of a fixed kernel, or adaptive."""

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
    """Return one number per dimension; one number, or a list of one, stands for all."""
    values = [int(value)] if isinstance(value, int) else [int(each) for each in value]
    return values * rank if len(values) == 1 else values


def _on_both_sides(pads: list[int]) -> list[AttributeValue]:
    return [*pads, *pads]


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


def is_dequantisation(name: str) -> bool:
    """Return True if the operator converts integers to floating point with one scale or several."""
    return name in _SCALED and _SCALED[name] == "DequantizeLinear"


def is_attention(name: str) -> bool:
    """Return True if the operator is a variant of scaled-dot-product attention."""
    return name == "scaled_dot_product_attention" or name.startswith("_scaled_dot_product")


def outputs_beyond_the_first_are_optional(name: str) -> bool:
    """Return True if unread outputs beyond the first serve only the backward pass."""
    return name in _OPTIONAL_OUTPUTS or name.startswith("_scaled_dot_product")


def kind_and_attributes(name: str, arguments: Arguments) -> tuple[str, Attributes]:
    """Return the ONNX kind and attributes of an ATen operator; `arguments` by their names in the schema."""
    if is_attention(name):
        seen = shapes(*(arguments[name] for name in ("query", "key", "value")))
        return "Attention", {"input_shapes": seen, "is_causal": int(bool(arguments.get("is_causal")))}
    if name in _DESCRIBERS:
        return _DESCRIBERS[name](arguments)
    return KINDS.get(name, name), {}


def shapes(*values: torch.Tensor) -> list[AttributeValue]:
    """Return the shapes of operands as the operator reads them; folded views may differ from their tensors."""
    return [[int(size) for size in value.shape] for value in values]


def _scaled(kind: str) -> Describer:
    """Return a function that describes a quantisation with one scale, or one for each index of an axis."""
    names = ("axis", "scale", "zero_point")
    return lambda arguments: (kind, {name: arguments[name] for name in names if _is_number(arguments.get(name))})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _matrix_product(kind: str, left: str, right: str) -> Describer:
    return lambda arguments: (kind, {"input_shapes": shapes(arguments[left], arguments[right])})


def _pad(arguments: Arguments) -> tuple[str, Attributes]:
    """Return the pads in ONNX's order; ATen pads from the last dimension, begin and end together."""
    pairs = [int(each) for each in arguments["pad"]]
    unpadded = [0] * (len(arguments["self"].shape) - len(pairs) // 2)
    return "Pad", {"pads": [*unpadded, *pairs[-2::-2], *unpadded, *pairs[::-2]]}


def _activation(kind: str, **names: str) -> Describer:
    """Return a function that describes an activation; `names` maps ONNX attributes to arguments."""
    plain = (int, float, str)
    return lambda arguments: (
        kind,
        {name: arguments[of] for name, of in names.items() if isinstance(arguments[of], plain)},
    )


def _reduce_mean(arguments: Arguments) -> tuple[str, Attributes]:
    keepdims = int(bool(arguments.get("keepdim")))
    return "ReduceMean", {"axes": [int(axis) for axis in arguments.get("dim") or ()], "keepdims": keepdims}


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
_DESCRIBERS: Final[Mapping[str, Describer]] = {
    **{name: _scaled(kind) for name, kind in _SCALED.items()},
    **dict.fromkeys(("softmax", "_softmax"), _activation("Softmax", axis="dim")),
    **dict.fromkeys(("log_softmax", "_log_softmax"), _activation("LogSoftmax", axis="dim")),
    "cat": _activation("Concat", axis="dim"),
    "clamp": _activation("Clip", min="min", max="max"),
    "elu": _activation("Elu", alpha="alpha"),
    "gelu": _activation("Gelu", approximate="approximate"),
    "hardtanh": _activation("Clip", min="min_val", max="max_val"),
    "leaky_relu": _activation("LeakyRelu", alpha="negative_slope"),
    **dict.fromkeys(("batch_norm", "native_batch_norm"), _batch_normalization),
    **dict.fromkeys(("_native_batch_norm_legit", "_native_batch_norm_legit_no_training"), _batch_normalization),
    **dict.fromkeys(("group_norm", "native_group_norm"), _group_normalization),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), _layer_normalization),
    "mean": _reduce_mean,
    "addmm": _matrix_product("Gemm", "mat1", "mat2"),
    "baddbmm": _matrix_product("Gemm", "batch1", "batch2"),
    "matmul": _matrix_product("MatMul", "self", "other"),
    **dict.fromkeys(("bmm", "mm"), _matrix_product("MatMul", "self", "mat2")),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), transposed_convolution),
    "convolution": any_convolution,
    **{f"avg_pool{rank}d": pool("AveragePool", rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": pool("MaxPool", rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d_with_indices": pool("MaxPool", rank) for rank in (2, 3)},
    **{f"adaptive_avg_pool{rank}d": adaptive_pool("AveragePool", rank) for rank in (1, 2, 3)},
    **{f"_adaptive_avg_pool{rank}d": adaptive_pool("AveragePool", rank) for rank in (2, 3)},
    "adaptive_max_pool2d": adaptive_pool("MaxPool", 2),
}
