"""Lower bounds on the cost of a layer that runs alone, in one tile, for any placement of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.ir.layer import Layer
from onchip.ops.fusable import FeatureMap, FusableLayer


@dataclass(frozen=True, slots=True)
class AloneBound:
    """Lower bounds on the cost of a layer: energy in pJ, cycles, and bits read from and written to DRAM."""

    energy_pj: float
    cycles: float
    dram_bits: int

    def plus(self, other: AloneBound) -> AloneBound:
        """Return the sum of two bounds, valid for layers that run one after the other."""
        return AloneBound(
            self.energy_pj + other.energy_pj, self.cycles + other.cycles, self.dram_bits + other.dram_bits
        )

    def less(self, other: AloneBound) -> AloneBound:
        """Return the difference of two sums of bounds."""
        return AloneBound(
            self.energy_pj - other.energy_pj, self.cycles - other.cycles, self.dram_bits - other.dram_bits
        )


def alone_bound(
    layer: FusableLayer,
    maps: Mapping[str, FeatureMap],
    homes: Mapping[str, str],
    output_home: str,
    machine: MachineFloors,
) -> AloneBound:
    """Return the cost of the layer's MACs at full use of the array, and of its compulsory DRAM traffic.

    `homes` maps the inputs that do not lie in DRAM to their memories. The DRAM bound is 0 if units count in parts.
    """
    macs = layer.layer.macs
    bits = 0 if machine.sharing.is_of_every_shape else _dram_bits(layer, maps, homes, output_home)
    return AloneBound(macs * machine.mac_energy_pj, macs / prod(machine.array.sizes.values()), bits)


def _dram_bits(layer: FusableLayer, maps: Mapping[str, FeatureMap], homes: Mapping[str, str], output_home: str) -> int:
    """Return the compulsory DRAM traffic in bits.

    A feature map counts only if the loop nest reads all of it. A map that the nest reads twice counts once.
    """
    operands = (Operand.INPUT, Operand.WEIGHT)[: len(layer.reads)]
    read = {
        one.source: maps[one.source].size_bits
        for one, operand in zip(layer.reads, operands, strict=True)
        if one.source not in homes and _reads_all(layer.layer, operand, maps[one.source])
    }
    return layer.weight_bits + sum(read.values()) + (layer.output.size_bits if output_home == DRAM else 0)


def _reads_all(nest: Layer, operand: Operand, source: FeatureMap) -> bool:
    """Return True if each element of the feature map is an operand of some product."""
    if nest.elements(operand) != source.elements:
        return False
    axes = zip(nest.axes, (nest.r, nest.s), strict=True)
    is_dense = all(axis.dilation == axis.stride == 1 or (taps == 1 and axis.stride == 1) for axis, taps in axes)
    return operand is not Operand.INPUT or is_dense
