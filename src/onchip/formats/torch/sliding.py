"""What ATen's convolutions and pools are called in ONNX, and their windows as attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from onchip.ir.operator import AttributeValue

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
