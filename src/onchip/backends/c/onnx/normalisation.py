"""Softmax, norms and reductions."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from onchip.backends.c.onnx.node import NodeInC
from onchip.backends.c.project.calls import KernelCall, Record, Symbol
from onchip.backends.c.project.walks import dense_steps, walk

_OF_ONE_AXIS: Final = 13
"""From this version of the operators on softmax goes along one axis; before, along all from it on."""
REDUCTIONS: Final = {
    "ReduceL2": "L2",
    "ReduceMax": "MAXIMUM",
    "ReduceMean": "MEAN",
    "ReduceMin": "MINIMUM",
    "ReduceSum": "SUM",
}


def slices(shape: tuple[int, ...], start: int, stop: int) -> Record:
    """Return what a kernel goes along: the axes [start, stop) of an array."""
    sizes = (prod(shape[:start]), prod(shape[start:stop]), prod(shape[stop:]))
    return Record("slices", tuple(zip(("outer", "size", "inner"), sizes, strict=True)))


def softmax(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a softmax or its logarithm."""
    shape, is_new = node.shape(0), node.opset >= _OF_ONE_AXIS
    axis = node.whole("axis", -1 if is_new else 1) % max(len(shape), 1)
    along = slices(shape, axis, axis + 1 if is_new else len(shape))
    if node.kind == "Softmax":
        yield KernelCall("softmax_f32", (along, 1.0, node.read(0), node.written()))
    else:
        yield KernelCall("log_softmax_f32", (along, node.read(0), node.written()))


def batch_norm(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a norm with means and variances that are known."""
    if node.whole("training_mode", 0) or len(node.node.output) > 1:
        node.refuse("that trains")
    epsilon = node.real("epsilon", 1e-5)
    scale, shift, mean, variance = (node.read(at) for at in range(1, 5))
    along = slices(node.shape(0), 1, 2)
    operands = (scale, shift, mean, variance, node.read(0), node.written())
    yield KernelCall("batch_norm_f32", (along, epsilon, *operands))


def layer_norm(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a norm over the last axes; raises GraphError where its means are wanted too."""
    if len(node.node.output) > 1:
        node.refuse("with more than one output")
    shape = node.shape(0)
    axis = node.whole("axis", -1) % len(shape)
    size = prod(shape[axis:])
    if node.shape(1) != shape[axis:]:
        node.refuse("with a scale of another shape")
    yield _norm_call(node, prod(shape[:axis]), size, (size, 1, 1))


def instance_norm(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a norm over each map."""
    batch, channels, *space = node.shape(0)
    yield _norm_call(node, batch * channels, prod(space), (1, max(prod(space), 1), channels))


def group_norm(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a norm over groups of maps, with a scale for each channel."""
    batch, channels, *space = node.shape(0)
    groups = node.whole("num_groups", 1)
    if node.shape(1) != (channels,):
        node.refuse("with a scale for each group")
    of_group = channels // groups
    yield _norm_call(node, batch * groups, of_group * prod(space), (of_group, prod(space), groups))


def _norm_call(node: NodeInC, outer: int, size: int, affine: tuple[int, int, int]) -> KernelCall:
    epsilon = node.real("epsilon", 1e-5)
    entries = Record("affine", tuple(zip(("entries", "every", "groups"), affine, strict=True)))
    operands = (node.read(1), node.read_if_there(2), node.read(0), node.written())
    return KernelCall("layer_norm_f32", (outer, size, epsilon, entries, *operands))


def local_response(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a norm over neighbouring channels."""
    numbers = [node.real(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1))]
    along = slices(node.shape(0), 1, 2)
    arguments = (along, node.whole("size", 1), *numbers, node.read(0), node.written())
    yield KernelCall("local_response_f32", arguments)


def reduction(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a reduction along some axes, which must be constants."""
    shape = node.shape(0)
    axes = tuple(node.wholes("axes", ()))
    if node.has(1):
        axes = node.numbers(1)
    if not axes and node.whole("noop_with_empty_axes", 0):
        node.refuse("along no axis")
    along = {axis % len(shape) for axis in axes} or set(range(len(shape)))
    kept, reduced = reduction_walks(shape, along)
    operation = Symbol(f"REDUCE_{REDUCTIONS[node.kind]}")
    yield KernelCall("reduce_f32", (operation, kept, reduced, node.read(0), node.written()))


def reduction_walks(shape: tuple[int, ...], along: set[int]) -> tuple[Record, Record]:
    """Return the walk over the output's places, with the input's, and the walk over what each is made of."""
    steps = dense_steps(shape)
    kept = [at for at in range(len(shape)) if at not in along]
    outer = walk([shape[at] for at in kept], dense_steps([shape[at] for at in kept]), [steps[at] for at in kept])
    inner = sorted(along)
    return outer, walk([shape[at] for at in inner], [0] * len(inner), [steps[at] for at in inner])
