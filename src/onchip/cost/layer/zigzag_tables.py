"""What the compiled accountings of ZigZag and DeFiNES need beside `layer_tables`.

That is how inputs lie under outputs, what the two count differently, and room to work in.

Operands and loops as there; holders of tiles are the units, the levels as the accelerator lists them, DRAM.
"""

from __future__ import annotations

from math import gcd
from typing import Final, NamedTuple

import numpy as np

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.cost.layer.accounting import Accounting
from onchip.cost.layer.limits import array_of
from onchip.cost.layer.tables import Flags, Integers, Machine, Reals
from onchip.ir.layer import LOOPS


class Facts(NamedTuple):
    """Axes are height and width; strides and dilations without their common divisor."""

    stride: Integers
    dilation: Integers
    axis_size: Integers
    axis_stride: Integers
    axis_dilation: Integers
    bounds: Integers  # of each loop, as asked for
    has_axes: bool  # False where rows and columns of the input are as channels
    keeps_at_units: bool
    cut_late: bool
    whole_room: bool
    of_a_cycle: bool
    lone_stalls: bool
    loads_meanwhile: bool
    sums_overlap: bool
    is_systolic: Flags  # of each dimension of the array
    holds_both: Flags  # of each level and DRAM: whether inputs and weights share it


class RealCosts(NamedTuple):
    """What came out, a row each; cycles are whole unless loading hides behind the loops."""

    energy_pj: Reals
    cycles: Reals
    status: Integers


class Bench(NamedTuple):
    """What the compiled version writes while it costs one mapping; `at` numbers an operand's boundaries."""

    inner: Integers  # loop, place: product of the loop's factors inside a place of the nest
    all: Integers  # place
    next_relevant: Integers  # operand, place
    side: Reals  # loop, dimension of the array
    span: Reals  # holder, loop: side by side within one instance
    apart: Reals  # holder: instances in use
    whole_span: Reals
    whole_axis_size: Integers
    boundaries: Integers  # operand: how many
    holder: Integers  # operand, at: below the boundary; one more, above the last
    cut: Integers  # operand, at: of the holder below
    settled: Integers  # operand, at: the same above the loops along which the tile is used again
    size: Integers  # operand, at, lower or upper
    moves: Reals  # operand, at, lower or upper
    neighbours: Reals  # operand, at
    episodes: Integers  # operand, at
    pending: Flags  # at, of sums
    needs: Integers  # level
    in_use: Integers  # operand, level
    has_room: Flags  # operand, level
    nearest_bits: Integers  # operand: of a tile of its nearest memory
    visits: Integers  # row of a visit, visit
    left: Reals  # visit: cycles
    visit_count: Integers
    order: Integers
    whole: Integers


VISIT_ROWS: Final = 10


def facts_of(problem: LayerProblem, accounting: Accounting) -> Facts:
    """Return what the kernel needs to know of a layer as it is asked for, in arrays."""
    layer = problem.layer
    both = {Operand.INPUT, Operand.WEIGHT}
    common = [gcd(axis.stride, axis.dilation) for axis in layer.axes]
    return Facts(
        np.array([axis.stride // divisor for axis, divisor in zip(layer.axes, common, strict=True)]),
        np.array([axis.dilation // divisor for axis, divisor in zip(layer.axes, common, strict=True)]),
        np.array([axis.size for axis in layer.axes]),
        np.array(layer.stride),
        np.array(layer.dilation),
        np.array(list(layer.bounds.values())),
        not (accounting.single_taps_are_channels and (layer.r, layer.s) == (1, 1)),
        accounting.units_keep_operands,
        accounting.parts_are_cut_late,
        accounting.parts_have_whole_room,
        accounting.accesses_are_of_a_cycle,
        not accounting.lone_transfers_never_stall,
        accounting.whole_operands_load_meanwhile,
        accounting.last_sums_overlap,
        np.array([name in accounting.systolic for name in array_of(problem.accelerator).sizes], np.bool_),
        np.array([*(both <= set(level.memory.holds) for level in problem.levels), True]),
    )


def bench_of(machine: Machine, loops: int) -> Bench:
    """For mappings of at most so many temporal loops."""
    levels, dimensions = machine.capacity_bits.size, machine.units.size
    holders, places, visits = levels + 2, loops + 1, 12 * (levels + 1)

    def zeros(*sizes: int) -> Integers:
        return np.zeros(sizes, np.int64)

    def reals(*sizes: int) -> Reals:
        return np.zeros(sizes)

    return Bench(
        zeros(len(LOOPS), places), zeros(places), zeros(3, places),
        reals(len(LOOPS), dimensions), reals(holders, len(LOOPS)), reals(holders), reals(holders, len(LOOPS)), zeros(2),
        zeros(3), zeros(3, holders), zeros(3, holders), zeros(3, holders),
        zeros(3, holders, 2), reals(3, holders, 2), reals(3, holders), zeros(3, holders), np.zeros(holders, np.bool_),
        zeros(levels), zeros(3, levels), np.zeros((3, levels), np.bool_), zeros(3),
        zeros(VISIT_ROWS, visits), reals(visits), zeros(1), zeros(visits), zeros(visits + 1),
    )  # fmt: skip
