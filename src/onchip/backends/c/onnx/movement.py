"""Operators that move bytes: transposes, slices, concatenations, pads and their like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from onchip.backends.c.onnx.node import NodeInC
from onchip.backends.c.project.calls import KernelCall, table
from onchip.backends.c.project.walks import broadcast_steps, copy_call, dense_steps, move_call, shifted


def transpose(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that puts axes in another order."""
    shape = node.shape(0)
    order = node.wholes("perm", list(range(len(shape)))[::-1])
    steps = dense_steps(shape)
    yield _whole_move(node, [shape[at] for at in order], [steps[at] for at in order])


def concatenation(node: NodeInC) -> Iterator[KernelCall]:
    """Yield a call for each part."""
    written = node.written_shape()
    axis = node.whole("axis", 1) % len(written)
    steps, start = dense_steps(written), 0
    for at in range(len(node.node.input)):
        shape = node.shape(at)
        if prod(shape):
            size = node.element_bytes(at)
            target = node.written_bytes(shift_bytes=start * steps[axis] * size)
            yield move_call(shape, (target, steps), (node.read_bytes(at), dense_steps(shape)), size)
        start += shape[axis]


def split(node: NodeInC) -> Iterator[KernelCall]:
    """Yield a call for each part that somebody reads."""
    shape, size = node.shape(0), node.element_bytes(0)
    axis = node.whole("axis", 0) % len(shape)
    steps = dense_steps(shape)
    ends = np.cumsum([0, *_parts(node, shape[axis])]).tolist()
    for at, (start, stop) in enumerate(pairwise(ends)):
        if not node.node.output[at] or node.node.output[at] not in node.model.network.types.static:
            continue
        part = (*shape[:axis], stop - start, *shape[axis + 1 :])
        source = shifted(node.read_bytes(0), start * steps[axis], size)
        yield move_call(part, (node.written_bytes(at), dense_steps(part)), (source, steps), size)


def _parts(node: NodeInC, size: int) -> tuple[int, ...]:
    if node.has(1):
        return node.numbers(1)
    if sizes := node.wholes("split", ()):
        return tuple(sizes)
    count = len(node.node.output)
    each = -(-size // count)
    return tuple(min(each, size - at * each) for at in range(count))


def slice_(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that takes elements of some ranges, backwards too; the ranges must be constants."""
    shape, size = node.shape(0), node.element_bytes(0)
    starts, axes, strides = _ranges(node, len(shape))
    steps, first = list(dense_steps(shape)), 0
    for start, axis, stride in zip(starts, axes, strides, strict=True):
        begin = range(shape[axis])[slice(start, None, stride)]
        first += (begin[0] if begin else 0) * dense_steps(shape)[axis]
        steps[axis] *= stride
    yield _whole_move(node, node.written_shape(), steps, first * size)


def _ranges(node: NodeInC, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    if node.opset < 10:
        starts = tuple(node.wholes("starts", ()))
        axes, strides = tuple(node.wholes("axes", range(len(starts)))), (1,) * len(starts)
    else:
        starts = node.numbers(1)
        axes = node.numbers(3) if node.has(3) else tuple(range(len(starts)))
        strides = node.numbers(4) if node.has(4) else (1,) * len(starts)
    return starts, tuple(axis % rank for axis in axes), strides


def pad(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the calls that fill the output with a constant, and put the input within."""
    if node.text("mode", "constant") != "constant":
        node.refuse(f"in mode {node.text('mode', '')}")
    shape, written, size = node.shape(0), node.written_shape(), node.element_bytes(0)
    before = _pads_before(node, len(shape))
    value = node.constant(2) if node.has(2) else np.zeros(1) + node.real("value", 0.0)
    element = table(f"{node.operator} pad", value.reshape(-1)[:1], node.element(0))
    yield KernelCall("fill", (prod(written), size, element, node.written_bytes()))
    steps, source = dense_steps(written), list(dense_steps(shape))
    sizes = [min(shape[at], shape[at] + before[at], written[at]) for at in range(len(shape))]
    sizes = [min(sizes[at], written[at] - max(0, before[at])) for at in range(len(shape))]
    if not all(one > 0 for one in sizes):
        return
    first = sum(max(0, one) * step for one, step in zip(before, steps, strict=True))
    cut = sum(max(0, -one) * step for one, step in zip(before, source, strict=True))
    target = node.written_bytes(shift_bytes=first * size)
    yield move_call(sizes, (target, steps), (shifted(node.read_bytes(0), cut, size), source), size)


def _pads_before(node: NodeInC, rank: int) -> list[int]:
    pads = node.numbers(1) if node.has(1) else tuple(node.wholes("pads", ()))
    axes = [axis % rank for axis in node.numbers(3)] if node.has(3) else list(range(rank))
    before = [0] * rank
    for at, axis in enumerate(axes):
        before[axis] = pads[at]
    return before


def expand(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that repeats an array along axes of one element."""
    written = node.written_shape()
    yield _whole_move(node, written, broadcast_steps(node.shape(0), written))


def tile(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that lays an array beside itself."""
    shape, written = node.shape(0), node.written_shape()
    sizes, steps = [], []
    for size, step, whole in zip(shape, dense_steps(shape), written, strict=True):
        sizes += [whole // size, size]
        steps += [0, step]
    yield _whole_move(node, sizes, steps)


def depth_to_space(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that makes channels into blocks of space."""
    batch, channels, rows, columns = node.shape(0)
    block = node.whole("blocksize", 1)
    depth = channels // (block * block)
    is_depth_first = node.text("mode", "DCR") == "DCR"
    seen = (
        (batch, block, block, depth, rows, columns) if is_depth_first else (batch, depth, block, block, rows, columns)
    )
    order = (0, 3, 4, 1, 5, 2) if is_depth_first else (0, 1, 4, 2, 5, 3)
    steps = dense_steps(seen)
    yield _whole_move(node, [seen[at] for at in order], [steps[at] for at in order])


def space_to_depth(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that makes blocks of space into channels."""
    batch, channels, rows, columns = node.shape(0)
    block = node.whole("blocksize", 1)
    seen = (batch, channels, rows // block, block, columns // block, block)
    steps, order = dense_steps(seen), (0, 3, 5, 1, 2, 4)
    yield _whole_move(node, [seen[at] for at in order], [steps[at] for at in order])


def gather(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that takes rows by their indices, constants or not."""
    shape, kinds = node.shape(0), {"int64": "gather_i64", "int32": "gather_i32"}
    axis = node.whole("axis", 0) % len(shape)
    if node.element(1) not in kinds:
        node.refuse(f"by {node.element(1)}")
    row_bytes = prod(shape[axis + 1 :]) * node.element_bytes(0)
    sizes = (prod(shape[:axis]), shape[axis], row_bytes, prod(node.shape(1)))
    arguments = (*sizes, node.read(1, node.element(1)), node.read_bytes(0), node.written_bytes())
    yield KernelCall(kinds[node.element(1)], arguments)


def reshaped(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that copies what is seen in another shape."""
    yield copy_call(prod(node.shape(0)) * node.element_bytes(0), node.read_bytes(0), node.written_bytes().tensor)


def _whole_move(node: NodeInC, sizes: Sequence[int], steps: Sequence[int], shift_bytes: int = 0) -> KernelCall:
    """The call that fills the whole output, of these sizes, with what is read by these steps."""
    size = node.element_bytes(0)
    source = shifted(node.read_bytes(0), shift_bytes // size, size)
    return move_call(sizes, (node.written_bytes(), dense_steps(sizes)), (source, steps), size)
