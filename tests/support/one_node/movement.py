"""Nodes that move, select or create elements."""

from __future__ import annotations

import numpy as np

from support.one_node.node import OneNode, broadcast_pair, draws


@draws("Expand")
def expanded(node: OneNode) -> None:
    first, second = broadcast_pair(node)
    node.feed(first)
    node.state(second)


@draws("Tile")
def tiled(node: OneNode) -> None:
    shape = node.shape(1)
    node.feed(shape)
    node.state(node.integers(len(shape), 1, 3))


@draws("Concat")
def joined(node: OneNode) -> None:
    shape = node.shape(1)
    axis = node.axis(len(shape), negative=node.opset >= 11)
    for _ in range(node.integer(1, 4)):
        part = list(shape)
        part[axis] = node.integer(1, 5)
        node.feed(part)
    node.set(axis=axis)


@draws("Split")
def split(node: OneNode) -> None:
    shape = node.shape(1)
    axis = node.axis(len(shape), negative=node.opset >= 11)
    node.outputs = node.integer(1, 4)
    if axis or node.chance():
        node.set(axis=axis)
    if node.chance():
        sizes = node.integers(node.outputs, 1, 3)
        shape[axis] = sum(sizes)
        node.feed(shape)
        if node.opset < 13:
            node.set(split=sizes)
        else:
            node.state(sizes)
        return
    if node.opset < 18:
        shape[axis] = node.outputs * node.integer(1, 3)
    else:
        shape[axis] = node.integer(node.outputs, 9)
        node.set(num_outputs=node.outputs)
    node.feed(shape)


@draws("Slice")
def sliced(node: OneNode) -> None:
    shape = node.integers(node.integer(1, 4), 2, 6)
    node.feed(shape)
    axes = node.axes(len(shape), 1)
    if node.opset < 10:
        axes = [axis % len(shape) for axis in axes]
    steps = [node.one_of(1, 1, 2, 3, -1, -2) if node.opset >= 10 else 1 for _ in axes]
    low = [node.integer(-7, 1) for _ in axes]
    high = [node.one_of(2, 4, 5, 100, 2**31 - 1, 2**63 - 1) for _ in axes]
    starts = [start if step > 0 else end for start, end, step in zip(low, high, steps, strict=True)]
    ends = [end if step > 0 else -100 for end, step in zip(high, steps, strict=True)]
    if node.opset < 10:
        node.set(starts=starts, ends=ends, axes=axes)
        return
    for listed in (starts, ends, axes):
        node.state(listed)
    if node.chance(0.6):
        node.state(steps)
    else:
        assert len(node.inputs) == 4


@draws("Gather GatherElements")
def gathered(node: OneNode) -> None:
    shape = node.shape(1)
    axis = node.axis(len(shape), negative=node.opset >= 11)
    node.feed(shape)
    rank = len(shape)
    picked = (
        node.shape(0, 3)
        if node.kind == "Gather"
        else [node.integer(1, size) if at != axis % rank else node.integer(1, 6) for at, size in enumerate(shape)]
    )
    node.weight(picked, np.int64, shape[axis])
    if axis or node.chance():
        node.set(axis=axis)


@draws("Pad")
def padded(node: OneNode) -> None:
    shape = node.integers(node.integer(1, 4), 3, 6)
    node.feed(shape)
    mode = node.one_of("constant", "edge", "reflect", *(["wrap"] if node.opset >= 19 else []))
    axes = node.axes(len(shape), 1) if node.opset >= 18 and node.chance(0.4) else list(range(len(shape)))
    pads = node.integers(2 * len(axes), -1 if node.chance(0.3) else 0, 2)
    node.set(mode=mode if mode != "constant" or node.chance() else None)
    if node.opset < 11:
        node.set(pads=pads)
        return
    node.state(pads)
    if len(axes) < len(shape) or (node.opset >= 18 and node.chance(0.3)):
        node.leave_out()
        node.state(axes)


@draws("Resize")
def resized(node: OneNode) -> None:
    shape = [1, node.integer(1, 3), *node.integers(node.integer(1, 2), 2, 6)]
    rank = len(shape)
    node.set(mode=node.one_of("nearest", "linear"))
    scales = [1.0, 1.0, *(node.one_of(0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 2.3, 3.0) for _ in shape[2:])]
    node.feed(shape)
    if node.opset < 11:
        node.state(scales, np.float32)
        return
    axes = None
    if node.opset >= 18 and node.chance(0.4):
        axes = [axis - rank if node.chance(0.3) else axis for axis in node.random.sample(range(2, rank), rank - 2)]
        scales = scales[2:]
        node.set(axes=axes)
    node.state([], np.float32)
    if node.chance():
        node.state(scales, np.float32)
    else:
        node.state([], np.float32)
        sizes = [max(1, int(shape[axis] * node.one_of(0.5, 1, 2, 2.5))) for axis in axes or range(2, rank)]
        node.state(sizes if axes else [*shape[:2], *sizes])
        if node.opset >= 18 and min(axes or [0]) >= 0:  # onnxruntime takes negative axes for others here
            node.maybe(keep_aspect_ratio_policy=node.one_of("stretch", "not_larger", "not_smaller"))
    node.maybe(
        coordinate_transformation_mode=node.one_of("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    )


@draws("Upsample")
def upsampled(node: OneNode) -> None:
    node.opset = node.integer(7, 9)
    scales = [1.0, 1.0, *(node.one_of(1.0, 1.5, 2.0, 2.3, 3.0) for _ in range(2))]
    node.feed([1, node.integer(1, 3), *node.integers(2, 1, 6)])
    node.set(mode=node.one_of("nearest", "linear"))
    if node.opset < 9:
        node.set(scales=scales)
    else:
        node.state(scales, np.float32)


@draws("SpaceToDepth DepthToSpace")
def blocks(node: OneNode) -> None:
    block, (rows, columns, channels) = node.integer(1, 3), node.integers(3, 1, 3)
    if node.kind == "SpaceToDepth":
        node.feed([node.integer(1, 2), channels, rows * block, columns * block])
    else:
        node.feed([node.integer(1, 2), channels * block * block, rows, columns])
        if node.opset >= 11:
            node.maybe(mode=node.one_of("DCR", "CRD"))
    node.set(blocksize=block)


@draws("Compress")
def compressed(node: OneNode) -> None:
    shape = node.shape(1)
    axis = node.axis(len(shape), negative=node.opset >= 11) if node.chance() else None
    node.feed(shape)
    length = node.integer(1, int(np.prod(shape)) if axis is None else shape[axis])
    node.state([True, *(node.chance() for _ in range(length - 1))], np.bool_)
    node.set(axis=axis)


@draws("TopK")
def top(node: OneNode) -> None:
    shape = node.shape(1)
    axis = node.axis(len(shape), negative=node.opset >= 11)
    node.feed(shape)
    count = node.integer(1, shape[axis])
    node.outputs = 2
    node.set(axis=axis)
    if node.opset < 10:
        node.set(k=count)
    else:
        node.state([count])


@draws("Range")
def numbers(node: OneNode) -> None:
    dtype = node.one_of(np.int64, np.int32, np.float32, np.float64)
    start, step = node.integer(-5, 5), node.one_of(-3, -2, -1, 1, 2, 3)
    if dtype in (np.float32, np.float64):
        step = step * node.one_of(0.1, 0.3, 0.7, 1)
    limit = start + step * node.integer(1, 9) + node.one_of(0, 1 if step > 0 else -1)
    for number in (start, limit, step):
        node.state(number, dtype)


@draws("RandomNormal RandomUniform")
def random_numbers(node: OneNode) -> None:
    node.set(shape=node.shape(1))
    node.maybe(dtype=int(node.one_of(1, 11)))


@draws("Multinomial")
def multinomial(node: OneNode) -> None:
    node.feed(node.integers(2, 1, 4))
    node.maybe(sample_size=node.integer(1, 5), dtype=int(node.one_of(6, 7)))


@draws("NonZero Unique")
def found_in_values(node: OneNode) -> None:
    shape = node.shape(1)
    node.feed(shape)
    if node.kind == "Unique":
        node.outputs = node.integer(1, 4)
        node.maybe(axis=node.axis(len(shape)), sorted=node.integer(0, 1))


@draws("NonMaxSuppression")
def boxes(node: OneNode) -> None:
    images, classes, count = node.integer(1, 2), node.integer(1, 3), node.integer(1, 6)
    node.feed([images, count, 4])
    node.feed([images, classes, count])
    node.state(node.integer(1, 4))
    node.state(0.5, np.float32)
