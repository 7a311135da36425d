"""When TFLite Micro needs each tensor of its arena, which of them lie at one offset, and what kernels need beside them.

As `micro_allocation_info.cc` has it: step 0 is when the inputs are given, step k + 1 runs the operator of place k.
Inputs live from step 0, outputs to the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from onchip.answer.packing import Buffer
from onchip.errors import GraphError
from onchip.formats.tflite.graph import ReadNetwork
from onchip.formats.tflite.micro_scratch import scratch_bytes
from onchip.formats.tflite.network import NetworkTensor
from onchip.formats.tflite.types import INT4, bits_of
from onchip.ir.tensor import size_in_bytes


@dataclass(frozen=True, slots=True)
class ArenaContents:
    """What an arena holds when operators run in some order: tensors of one group have one place, `buffers` says when.

    `scratch` are the buffers of each operator's kernel, by the operator's place in the order. Sizes are in bytes, not
    rounded up.
    """

    groups: tuple[tuple[int, ...], ...]
    buffers: tuple[Buffer, ...]
    scratch: tuple[tuple[Buffer, ...], ...]


def arena_contents(read: ReadNetwork, order: Sequence[int], *, views_apart: bool = False) -> ArenaContents:
    """The buffers when the file's operators run in `order`; a view lies where its source does, or apart.

    Raises GraphError for what has no size.
    """
    lives = arena_lives(read, order)
    groups: dict[int, list[int]] = {}
    for index in sorted(lives):
        base = read.storage.base(index)
        groups.setdefault(base if base in lives and not views_apart else index, []).append(index)
    buffers = [
        Buffer(
            min(lives[index][0] for index in group),
            max(lives[index][1] for index in group),
            max(arena_size_bytes(read.network.tensors[index]) for index in group),
        )
        for group in groups.values()
    ]
    scratch = [
        tuple(Buffer(step, step + 1, size) for size in scratch_bytes(read.network.operators[at], read.network.tensors))
        for step, at in enumerate(order, start=1)
    ]
    return ArenaContents(tuple(tuple(group) for group in groups.values()), tuple(buffers), tuple(scratch))


def arena_lives(read: ReadNetwork, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    """By tensor the half-open range of steps that need its bytes; constants and state have places apart.

    What no operator touches is there in a step of its own, after the last.
    """
    network, storage = read.network, read.storage
    last = len(order) + 1
    lives = dict.fromkeys(network.inputs, (0, 1))
    for step, place in enumerate(order, start=1):
        operator = network.operators[place]
        for index in operator.outputs:
            lives[index] = (step, step + 1)
        for index in operator.inputs:
            if index in lives:
                lives[index] = (lives[index][0], step + 1)
    for index in network.outputs:
        if index in lives:
            lives[index] = (lives[index][0], last)
    for index, tensor in enumerate(network.tensors):
        if tensor.stated.content is None:
            lives.setdefault(index, (last, last + 1))
    return {at: life for at, life in lives.items() if prod(network.tensors[at].shape) and not storage.is_state(at)}


def arena_size_bytes(tensor: NetworkTensor) -> int:
    """How many bytes a tensor takes in the arena, where half a byte is a whole one; raises GraphError."""
    bits = 8 if tensor.element_type == INT4 else bits_of(tensor.element_type)
    if bits is None:
        raise GraphError("its elements have no fixed size", place=f"tensor {tensor.name!r}", expected="numbers")
    return size_in_bytes(tensor.shape, bits)
