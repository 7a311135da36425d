"""Operators that move bytes: transposes, slices, concatenations, pads and their like; and maps of another size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onchip.backends.c.project.calls import KernelCall, Record, Table, table
from onchip.backends.c.project.walks import broadcast_steps, dense_steps, move_call, shifted
from onchip.backends.c.tflite.node import LiteNode


def transpose(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that puts axes in another order."""
    shape, order = node.shape(0), node.numbers(1)
    steps = dense_steps(shape)
    yield _whole_move(node, [shape[at] for at in order], [steps[at] for at in order])


def concatenation(node: LiteNode) -> Iterator[KernelCall]:
    """Yield a call for each part; integers must be of the output's scale."""
    written = node.written_shape()
    axis = node.option("axis") % len(written)
    _ensure_same_scale(node)
    start = 0
    for place in range(len(node.stated.inputs)):
        yield _into(node, place, axis, start, node.shape(place))
        start += node.shape(place)[axis]
    if node.option("fused_activation_function"):
        node.refuse("with an activation")


def pack(node: LiteNode) -> Iterator[KernelCall]:
    """Yield a call for each part, which has one axis less than the output."""
    axis = node.option("axis") % len(node.written_shape())
    _ensure_same_scale(node)
    for place in range(len(node.stated.inputs)):
        shape = node.shape(place)
        yield _into(node, place, axis, place, (*shape[:axis], 1, *shape[axis:]))


def _into(node: LiteNode, place: int, axis: int, start: int, seen: Sequence[int]) -> KernelCall:
    """The call that puts an input, seen in a shape, into the output from an element of an axis on."""
    steps, size = dense_steps(node.written_shape()), node.element_bytes(place)
    target = node.written_bytes(shift_bytes=start * steps[axis] * size)
    return move_call(seen, (target, steps), (node.read_bytes(place), dense_steps(seen)), size)


def _ensure_same_scale(node: LiteNode) -> None:
    if node.written_element() in ("int8", "int16", "uint8"):
        scales = {node.quantisation(place) for place in range(len(node.stated.inputs))}
        if scales != {node.written_quantisation()}:
            node.refuse("of several scales")


def split(node: LiteNode) -> Iterator[KernelCall]:
    """Yield a call for each part."""
    source = {"SPLIT": 1, "SPLIT_V": 0, "UNPACK": 0}[node.kind]
    shape, size = node.shape(source), node.element_bytes(source)
    is_unpacked = node.kind == "UNPACK"
    stated = node.option("axis") if is_unpacked else node.numbers(0 if node.kind == "SPLIT" else 2)[0]
    axis = stated % len(shape)
    count = len(node.stated.outputs)
    sizes = [1 if is_unpacked else node.written_shape(at)[axis] for at in range(count)]
    steps = dense_steps(shape)
    for at, start in enumerate(accumulate(sizes[:-1], initial=0)):
        part = (*shape[:axis], sizes[at], *shape[axis + 1 :])
        read = shifted(node.read_bytes(source), start * steps[axis], size)
        yield move_call(part, (node.written_bytes(at), dense_steps(part)), (read, steps), size)


def slice_(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that takes a range of each axis."""
    steps = dense_steps(node.shape(0))
    first = sum(start * step for start, step in zip(node.numbers(1), steps, strict=True))
    yield _whole_move(node, node.written_shape(), steps, first)


def strided_slice(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that takes elements of a range of each axis, some of which may be one element and go."""
    if node.option("ellipsis_mask") or node.option("new_axis_mask"):
        node.refuse("with new axes")
    shape = node.shape(0)
    starts, stops, strides = (list(node.numbers(place)) for place in (1, 2, 3))
    steps, first, sizes = list(dense_steps(shape)), 0, list(shape)
    for axis, (start, stop, stride) in enumerate(zip(starts, stops, strides, strict=True)):
        begin = None if node.option("begin_mask") >> axis & 1 else start
        end = None if node.option("end_mask") >> axis & 1 else stop
        if node.option("shrink_axis_mask") >> axis & 1:
            taken = range(shape[axis])[start : start + 1 or None]
        else:
            taken = range(shape[axis])[begin:end:stride]
        first += (taken[0] if taken else 0) * steps[axis]
        sizes[axis], steps[axis] = len(taken), steps[axis] * stride
    if prod(sizes) != prod(node.written_shape()):
        node.refuse("of other ranges than its output says")
    yield _whole_move(node, sizes, steps, first)


def pad(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the calls that fill the output with one value, of integers their zero, and put the input within."""
    shape, written, size = node.shape(0), node.written_shape(), node.element_bytes()
    before = node.constant(1).reshape(-1, 2)[:, 0].tolist()
    if node.has(2):
        value = node.constant(2).reshape(-1)[:1]
    else:
        value = np.array([node.written_quantisation().zero if node.written_element() == "int8" else 0])
    element = table(f"{node.operator} pad", value, node.element())
    yield KernelCall("fill", (prod(written), size, element, node.written_bytes()))
    steps = dense_steps(written)
    first = sum(one * step for one, step in zip(before, steps, strict=True))
    target = node.written_bytes(shift_bytes=first * size)
    yield move_call(shape, (target, steps), (node.read_bytes(), dense_steps(shape)), size)


def broadcast(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that repeats an array along axes of one element."""
    written = node.written_shape()
    yield _whole_move(node, written, broadcast_steps(node.shape(0), written))


def tile(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that lays an array beside itself."""
    sizes: list[int] = []
    steps: list[int] = []
    for size, step, whole in zip(node.shape(0), dense_steps(node.shape(0)), node.written_shape(), strict=True):
        sizes += [whole // size, size]
        steps += [0, step]
    yield _whole_move(node, sizes, steps)


def depth_to_space(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that makes channels into blocks of space."""
    batch, rows, columns, channels = node.shape(0)
    block = node.option("block_size", 1)
    seen = (batch, rows, columns, block, block, channels // (block * block))
    steps, order = dense_steps(seen), (0, 1, 3, 2, 4, 5)
    yield _whole_move(node, [seen[at] for at in order], [steps[at] for at in order])


def space_to_depth(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that makes blocks of space into channels."""
    batch, rows, columns, channels = node.shape(0)
    block = node.option("block_size", 1)
    seen = (batch, rows // block, block, columns // block, block, channels)
    steps, order = dense_steps(seen), (0, 1, 3, 2, 4, 5)
    yield _whole_move(node, [seen[at] for at in order], [steps[at] for at in order])


def gather(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that takes rows by their indices, constants or not."""
    shape, kinds = node.shape(0), {"int64": "gather_i64", "int32": "gather_i32"}
    axis = node.option("axis") % len(shape)
    if node.element(1) not in kinds or node.option("batch_dims"):
        node.refuse(f"by {node.element(1)}, or in batches")
    row_bytes = prod(shape[axis + 1 :]) * node.element_bytes()
    sizes = (prod(shape[:axis]), shape[axis], row_bytes, prod(node.shape(1)))
    arguments = (*sizes, node.read(1, node.element(1)), node.read_bytes(), node.written_bytes())
    yield KernelCall(kinds[node.element(1)], arguments)


def resize(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a resize of float maps, by the nearest element or linearly."""
    batch, rows, columns, channels = node.shape(0)
    _, made_rows, made_columns, _ = node.written_shape()
    sizes = {"maps": batch, "input_rows": rows, "input_columns": columns, "channels": channels}
    sizes |= {"output_rows": made_rows, "output_columns": made_columns}
    tables: list[tuple[str, Table]] = []
    for axis, size, made in (("row", rows, made_rows), ("column", columns, made_columns)):
        first, second, share = _sources(node, size, made)
        tables.append((f"first_{axis}", table(f"{node.operator} first {axis}", first, "int32")))
        tables.append((f"second_{axis}", table(f"{node.operator} second {axis}", second, "int32")))
        tables.append((f"{axis}_share", table(f"{node.operator} {axis} share", share, "float32")))
    record = Record("resampling", (*sizes.items(), *tables))
    yield KernelCall("resample_f32", (record, node.read(0, "float32"), node.written("float32")))


def _sources(node: LiteNode, size: int, made: int) -> tuple[npt.NDArray[Any], ...]:
    """Of each element made the two it lies between, and the second's share."""
    is_centred, is_aligned = node.option("half_pixel_centers"), node.option("align_corners") and made > 1
    scale = np.float32((size - 1) / (made - 1)) if is_aligned else np.float32(size / made)
    at = np.arange(made, dtype=np.float32)
    half = np.float32(0.5)
    if node.kind == "RESIZE_BILINEAR":
        place = (at + half) * scale - half if is_centred else at * scale
        first = np.maximum(np.floor(place), 0)
        second = np.minimum(np.ceil(place), size - 1)
        return first, second, np.clip(place - first, 0, 1)
    place = (at + half) * scale if is_centred else at * scale
    found = np.clip(np.floor(place + half) if is_aligned else np.floor(place), 0, size - 1)
    return found, found, np.zeros(made)


def _whole_move(node: LiteNode, sizes: Sequence[int], steps: Sequence[int], first: int = 0) -> KernelCall:
    """The call that fills the whole output, of these sizes, with what is read by these steps from an element on."""
    size = node.element_bytes()
    source = shifted(node.read_bytes(), first, size)
    return move_call(sizes, (node.written_bytes(), dense_steps(sizes)), (source, steps), size)
