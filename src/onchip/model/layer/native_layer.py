"""Conversion of a layer and its accelerator for the compiled cost models and searches."""

from __future__ import annotations

from typing import Final

from onchip import native
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated
from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, RELEVANT, Layer
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import OPERANDS, machine_of

SIDES: Final = ("P", "R", "Q", "S")
MOST_OUTPUTS: Final = 1 << 16  # per axis, since each position of a tile is examined
MOST_FILTERS: Final = 1 << 12
MOST_MACS: Final = 1 << 46  # with elements of at most 64 bits, no sum overflows 64 bits


def native_layer(layer: Layer, accelerator: Accelerator) -> native.LayerShape:
    """Return the layer for compiled code; raises InputError for a layer that is too large."""
    _check_size(layer)
    axes = [
        native.LayerAxis(
            outputs=layer.bounds[axis.output_loop],
            filters=layer.bounds[axis.filter_loop],
            stride=axis.stride,
            dilation=axis.dilation,
            padding=axis.padding,
            size=axis.size,
        )
        for axis in layer.axes
    ]
    return native.LayerShape(
        relevant=[[loop in RELEVANT[operand] for loop in LOOPS] for operand in OPERANDS],
        side_of=[SIDES.index(loop) if loop in SIDES else -1 for loop in LOOPS],
        is_channel=[loop in RELEVANT[INPUT] and loop not in SIDES for loop in LOOPS],
        bits=[layer.bits(operand) for operand in OPERANDS],
        elements=[layer.elements(operand) for operand in OPERANDS],
        partial_bits=layer.partial_bits,
        has_weight=layer.has_weight,
        mac_energy_pj=layer.macs * stated(array_of(accelerator).mac_energy_pj),
        axes=axes,
    )


def _check_size(layer: Layer) -> None:
    expected = None
    if layer.macs > MOST_MACS:
        expected = f"at most {MOST_MACS} multiply-accumulates"
    if max(layer.p, layer.q) >= MOST_OUTPUTS or max(layer.r, layer.s) >= MOST_FILTERS:
        expected = f"P, Q below {MOST_OUTPUTS}, R, S below {MOST_FILTERS}"
    if expected is not None:
        raise InputError("it is too large for the compiled cost model", place="layer", expected=expected)


def native_machine(problem: LayerProblem) -> native.LayerMachine:
    """Return the accelerator for compiled code, DRAM as the last level with unlimited capacity.

    Raises AcceleratorError if the accelerator's description is incomplete.
    """
    machine = machine_of(problem)
    columns = (
        machine.serves.tolist(),
        [*machine.capacity_bits.tolist(), 0],
        [*machine.double_buffered.tolist(), False],
        machine.shortest.tolist(),
        machine.read_pj.tolist(),
        machine.write_pj.tolist(),
        machine.port.tolist(),
    )
    names = ("serves", "capacity_bits", "is_double_buffered", "shortest_bits", "read_pj", "write_pj", "port")
    levels = [native.MachineLevel(**dict(zip(names, level, strict=True))) for level in zip(*columns, strict=True)]
    return native.LayerMachine(
        levels=levels,
        units=machine.units.tolist(),
        bits_per_cycle=machine.bits_per_cycle.tolist(),
        home=machine.home.tolist(),
    )
