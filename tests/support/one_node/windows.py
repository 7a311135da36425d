"""Nodes with sliding windows: convolutions, pools and their inverses."""

from __future__ import annotations

import numpy as np

from support.one_node.node import OneNode, draws


def _window(node: OneNode, *, dilated: bool = True, ceil: bool = False) -> tuple[int, list[int]]:
    """Set a window's attributes; return the number of spatial axes and the kernel's sizes."""
    rank = node.integer(1, 3)
    kernel = node.integers(rank, 1, 4)
    if node.chance(0.8):
        node.set(strides=node.integers(rank, 1, 4))
    how = node.integer(0, 5)
    if dilated and how != 3 and node.chance(0.4):  # onnxruntime ignores dilations in SAME pads, or refuses them
        node.set(dilations=node.integers(rank, 1, 3))
    if how < 3:
        node.set(pads=[node.integer(0, size - 1) for size in kernel * 2])
    elif how == 3:
        node.set(auto_pad=node.one_of("SAME_UPPER", "SAME_LOWER"))
    elif how == 4:
        node.set(auto_pad=node.one_of("VALID", "NOTSET"))
    if ceil:
        node.maybe(ceil_mode=node.integer(0, 1))
    return rank, kernel


@draws("MaxPool AveragePool LpPool com.microsoft::QLinearAveragePool com.microsoft::NhwcMaxPool")
def pool(node: OneNode) -> None:
    has_ceil = node.opset >= (18 if node.kind == "LpPool" else 10) or bool(node.domain)
    first_dilated = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18, "NhwcMaxPool": 0}
    rank, kernel = _window(node, dilated=node.opset >= first_dilated.get(node.kind, 99), ceil=has_ceil)
    node.set(kernel_shape=kernel)
    shape = [node.integer(1, 2), node.integer(1, 3), *node.integers(rank, 1, 9)]
    if node.kind == "NhwcMaxPool":
        node.feed([shape[0], *shape[2:], shape[1]], np.uint8)
    elif node.domain:
        node.feed(shape, np.uint8)
        for _ in range(2):
            node.state(0.5, np.float32)
            node.state(3, np.uint8)
    else:
        node.feed(shape)
    if node.kind.endswith("AveragePool"):
        node.maybe(count_include_pad=node.integer(0, 1))
    if node.kind == "MaxPool" and node.opset >= 8:
        node.maybe(storage_order=node.integer(0, 1))
        node.outputs = node.integer(1, 2)


@draws("GlobalAveragePool GlobalMaxPool GlobalLpPool com.microsoft::QLinearGlobalAveragePool")
def global_pool(node: OneNode) -> None:
    shape = node.shape(3, 5)
    if not node.domain:
        node.feed(shape)
        return
    node.feed(shape, np.uint8)
    for _ in range(2):
        node.state(0.5, np.float32)
        node.state(3, np.uint8)
    node.set(channels_last=0)


@draws("Conv ConvInteger QLinearConv com.microsoft::FusedConv")
def convolution(node: OneNode) -> None:
    rank, kernel = _window(node)
    group = node.integer(1, 2)
    reads, writes = node.integer(1, 2), group * node.integer(1, 3)
    shape = [node.integer(1, 2), reads * group, *node.integers(rank, 1, 9)]
    filters = [writes, reads, *kernel]
    if node.chance():
        node.set(kernel_shape=kernel)
    if group > 1:
        node.set(group=group)
    if node.kind == "QLinearConv":
        for part in (shape, filters):
            node.feed(part, np.uint8)
            node.state(0.5, np.float32)
            node.state(3, np.uint8)
        node.state(0.5, np.float32)
        node.state(3, np.uint8)
        return
    dtype = np.uint8 if node.kind == "ConvInteger" else np.float32
    node.feed(shape, dtype)
    node.weight(filters, dtype)
    if dtype is np.float32 and node.chance():
        node.weight([writes])


@draws("ConvTranspose")
def transposed_convolution(node: OneNode) -> None:
    rank, kernel = _window(node)
    group = node.integer(1, 2)
    shape = [node.integer(1, 2), group * node.integer(1, 2), *node.integers(rank, 1, 6)]
    node.feed(shape)
    node.weight([shape[1], node.integer(1, 3), *kernel])
    if node.chance():
        node.set(kernel_shape=kernel)
    if group > 1:
        node.set(group=group)
    strides = node.attributes.get("strides", [1] * rank)
    if node.chance(0.4):
        node.set(output_padding=[node.integer(0, max(stride - 1, 0)) for stride in strides])
    if node.chance(0.25):
        node.set(
            output_shape=[size * stride + node.integer(-1, 2) for size, stride in zip(shape[2:], strides, strict=True)]
        )


@draws("MaxUnpool")
def unpooled(node: OneNode) -> None:
    rank, kernel = _window(node, dilated=False)
    node.attributes.pop("auto_pad", None)
    strides = node.attributes.get("strides", [1] * rank)
    pads = node.attributes.get("pads", [0] * (2 * rank))
    shape = [1, node.integer(1, 2), *node.integers(rank, 1, 5)]
    node.set(kernel_shape=kernel)
    node.feed(shape)
    node.take(np.zeros(shape, np.int64), constant=False)
    if node.chance():
        plain = [(shape[2 + at] - 1) * strides[at] + kernel[at] - pads[at] - pads[rank + at] for at in range(rank)]
        node.state([*shape[:2], *(max(size, 1) + node.integer(0, 2) for size in plain)])


@draws("MaxRoiPool RoiAlign")
def regions(node: OneNode) -> None:
    node.feed([2, 3, node.integer(4, 8), node.integer(4, 8)])
    count = node.integer(1, 4)
    if node.kind == "MaxRoiPool":
        node.take(np.array([[0, 0, 0, 3, 3]] * count, np.float32), constant=False)
        node.set(pooled_shape=node.integers(2, 1, 4))
        return
    node.feed([count, 4])
    node.take(np.zeros(count, np.int64), constant=False)
    node.maybe(output_height=node.integer(1, 4), output_width=node.integer(1, 4), sampling_ratio=2)


@draws("LRN")
def local_norm(node: OneNode) -> None:
    node.feed(node.shape(4, 4))
    node.set(size=node.one_of(1, 3))
