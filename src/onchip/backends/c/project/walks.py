"""Walks over arrays, as kernels take them: sizes, and the steps of each operand along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Final

from onchip.backends.c.project.calls import BYTES, Argument, KernelCall, Record, Table, TensorOperand
from onchip.errors import GraphError

GREATEST_RANK: Final = 8
GREATEST_STEP: Final = 2**31 - 1


def dense_steps(shape: Sequence[int], unit: int = 1) -> tuple[int, ...]:
    """Return how far apart neighbours along each axis of a dense array lie; `unit` is what an element takes."""
    return tuple(accumulate(shape[:0:-1], mul, initial=unit))[::-1] if shape else ()


def broadcast_steps(shape: Sequence[int], onto: Sequence[int]) -> tuple[int, ...]:
    """Return the steps of an array along the axes of one that it is broadcast onto, 0 where it is repeated."""
    steps = [step if size > 1 else 0 for size, step in zip(shape, dense_steps(shape), strict=True)]
    return (0,) * (len(onto) - len(shape)) + tuple(steps)


def walk(sizes: Sequence[int], *steps: Sequence[int]) -> Record:
    """Return a walk of as few axes as it takes; raises GraphError for more than kernels know."""
    merged = _merged(sizes, steps)
    if len(merged) > GREATEST_RANK:
        raise GraphError(f"its elements lie along {len(merged)} axes", expected=f"at most {GREATEST_RANK}")
    for size, each in merged:
        if max((abs(step) * size for step in each), default=0) > GREATEST_STEP:
            raise GraphError("it is too large for a kernel's 32 bits", expected=f"at most {GREATEST_STEP} bytes")
    rank = len(merged)
    columns = tuple(tuple(each[operand] for _, each in merged) for operand in range(len(steps)))
    fields = (("rank", rank), ("sizes", tuple(size for size, _ in merged)), ("steps", columns))
    return Record("walk", fields if rank else (("rank", 0),))


def _merged(sizes: Sequence[int], steps: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """Axes from the outermost on: those of one element left out, those that go on as the next one does, joined."""
    merged: list[tuple[int, tuple[int, ...]]] = []
    for size, *each in zip(sizes, *steps, strict=True):
        if size == 1:
            continue
        if merged and all(outer == inner * size for outer, inner in zip(merged[-1][1], each, strict=True)):
            merged[-1] = (merged[-1][0] * size, tuple(each))
        else:
            merged.append((size, tuple(each)))
    return merged


def move_call(
    sizes: Sequence[int],
    written: tuple[TensorOperand, Sequence[int]],
    read: tuple[Argument, Sequence[int]],
    element_bytes: int,
) -> KernelCall:
    """Return the call that moves elements of that many bytes; steps are in elements. Raises GraphError."""
    merged = _merged(sizes, (written[1], read[1]))
    run = element_bytes
    if merged and merged[-1][1] == (1, 1):
        run *= merged.pop()[0]
    in_bytes = [tuple(step * element_bytes for step in each) for _, each in merged]
    sizes_left = [size for size, _ in merged]
    over = walk(sizes_left, [each[0] for each in in_bytes], [each[1] for each in in_bytes])
    return KernelCall("move", (over, run, read[0], written[0]))


def copy_call(size_bytes: int, read: Argument, written: str) -> KernelCall:
    """Return the call that copies so many bytes as they lie."""
    return KernelCall("move", (walk(()), size_bytes, read, TensorOperand(written, BYTES)))


def shifted(operand: TensorOperand | Table, elements: int, element_bytes: int) -> TensorOperand | Table:
    """Return an operand from one of its elements on."""
    if isinstance(operand, Table):
        return Table(f"{operand.name} from {elements}", operand.values[elements:]) if elements else operand
    return TensorOperand(operand.tensor, operand.element, elements * element_bytes)
