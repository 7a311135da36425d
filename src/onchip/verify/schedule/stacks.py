"""Are the stacks a way to run the network? Each operator once, in order, left by the last output alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final

from onchip.answer.schedule import ScheduledStack
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Role
from onchip.ir.window import integers
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.windows import CONVOLUTIONS, GLOBAL_POOLS, POOLS, ROW_BY_ROW

OVER_IMAGES: Final = CONVOLUTIONS | POOLS | GLOBAL_POOLS | {"ConvTranspose", "Resize", "Upsample"}
"""Kinds that see rows and columns of images."""


def verify_stacks(network: Graph, stacks: Sequence[ScheduledStack]) -> tuple[Violation, ...]:
    """Return all that is wrong; what leaves a stack and what tiles are is looked into where all operators are known."""
    found = [*_operators(network, stacks)]
    if not found:
        found += [*_order(network, stacks), *_what_leaves(network, stacks), *_tilings(network, stacks)]
    return tuple(found)


def tile_regions(network: Graph, stack: ScheduledStack) -> list[Region]:
    """Return the region of the stack's last output that each tile computes: left to right, then down.

    If the tile size does not divide an axis, the first tile along it is smaller. Stacks of matrices are tiled by rows,
    the last dimension but one, and by heads, the one before it.
    """
    operator = network.operator[stack.operators[-1]]
    shape = network.tensor[operator.outputs[0]].shape or ()
    if stack.tiling is not None and are_matrices(network, stack):
        rest = whole_region(shape)
        heads = _ranges(shape[-3], stack.tiling.columns, 1) if len(shape) == 4 else [()]
        return [
            (*rest[:-2], rows, rest[-1]) if not some else (rest[0], some, rows, rest[-1])
            for rows in _ranges(shape[-2], stack.tiling.rows, 1)
            for some in heads
        ]
    if stack.tiling is None or len(shape) != 4:
        return [whole_region(shape)]
    unit = pixel_of(operator)
    down = _ranges(shape[2], stack.tiling.rows, unit[0])
    across = _ranges(shape[3], stack.tiling.columns, unit[1])
    rest = whole_region(shape)
    return [(*rest[:2], rows, columns) for rows in down for columns in across]


def are_matrices(network: Graph, stack: ScheduledStack) -> bool:
    """Return True if tiles of the stack are rows of matrices.

    Its inputs and outputs have two or three dimensions; four if a product of matrices or a normalisation of rows is
    among its operators. One of them has several rows, and nothing is a convolution, a pool, or a resize.
    """
    operators = [network.operator[name] for name in stack.operators]
    kinds = {operator.kind for operator in operators}
    names = {name for operator in operators for name in (*operator.inputs, *operator.outputs)}
    shapes = [network.tensor[name].shape or () for name in names]
    ranks = (2, 3, 4) if kinds & (ROW_BY_ROW | {"MatMul"}) else (2, 3)
    has_rows = all(len(shape) in ranks for shape in shapes) and any(shape[-2] > 1 for shape in shapes)
    return has_rows and not kinds & OVER_IMAGES


def pixel_of(operator: Operator) -> tuple[int, int]:
    """Rows and columns of the output that one pixel of a tile stands for: a transposed convolution's stride, else 1."""
    if operator.kind != "ConvTranspose":
        return 1, 1
    rows, columns = integers(operator, "strides", (1, 1))
    return rows, columns


def _ranges(size: int, tile: int, unit: int) -> list[Range]:
    pixels = -(-size // unit)
    first = pixels % tile or tile
    edges = [0, *range(first, pixels + 1, tile)]
    return [(start * unit, min(stop * unit, size)) for start, stop in pairwise(edges)]


def _operators(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    given = {name for stack in stacks for name in stack.operators}
    for stack in stacks:
        for name in stack.operators:
            if name not in network.operator:
                yield Violation(Rule.UNKNOWN_OPERATOR, name, "no operator of the network has this name")
    for operator in network.operators:
        if operator.name not in given:
            yield Violation(Rule.OPERATOR_IN_NO_STACK, operator.name, "it is in no stack")


def _order(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    """Whatever an operator reads is written before; stacks that wait for each other are not convex."""
    stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
    writers = {
        name: [network.producer[read].name for read in network.operator[name].reads if read in network.producer]
        for name in stack_of
    }
    before: dict[int, set[int]] = {number: set() for number in range(len(stacks))}
    for name, number in stack_of.items():
        before[number] |= {stack_of[writer] for writer in writers[name]} - {number}
    try:
        tuple(TopologicalSorter(before).static_order())
    except CycleError as error:
        cycle = " -> ".join(f"stack {number}" for number in error.args[1])
        yield Violation(Rule.STACK_NOT_CONVEX, f"stack {error.args[1][0]}", f"they wait for each other: {cycle}")
        return
    places = {name: place for place, name in enumerate(stack_of)}
    for name, place in places.items():
        for writer in writers[name]:
            if places[writer] > place:
                yield Violation(Rule.OUT_OF_ORDER, name, f"it runs before {writer!r}, whose output it reads")


def _what_leaves(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    for stack in stacks:
        for name in stack.operators[:-1]:
            for written in network.operator[name].outputs:
                readers = [operator.name for operator in network.readers[written]]
                if network.tensor[written].role is Role.OUTPUT or not readers:
                    yield Violation(Rule.OUTPUT_LOST, name, f"{written!r} leaves the network")
                for reader in readers:
                    if reader not in stack.operators:
                        detail = (
                            f"{reader!r} reads {written!r} outside the stack that ends with {stack.operators[-1]!r}"
                        )
                        yield Violation(Rule.OVER_A_BRANCH, name, detail)


def _tilings(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    for number, stack in enumerate(stacks):
        if stack.tiling is None:
            continue
        last = network.operator[stack.operators[-1]]
        shape = network.tensor[last.outputs[0]].shape or ()
        unit = pixel_of(last)
        rows, columns = (-(-shape[2] // unit[0]), -(-shape[3] // unit[1])) if len(shape) == 4 else (1, 1)
        if are_matrices(network, stack):
            rows, columns = shape[-2], shape[-3] if len(shape) == 4 else 1
        if stack.tiling.columns > columns or stack.tiling.rows > rows:
            detail = f"tiles of {stack.tiling.columns} x {stack.tiling.rows} in a map of {columns} x {rows}"
            yield Violation(Rule.TILE_EXCEEDS_MAP, f"stack {number}", detail)
