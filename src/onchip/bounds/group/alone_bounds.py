"""What a layer that runs alone, in one tile, costs at least, wherever its operands lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.ir.layer import Layer
from onchip.ops.derive.fusable import FeatureMap, FusableLayer


@dataclass(frozen=True, slots=True)
class AloneBound:
    """Energy in pJ, cycles, and bits from and to DRAM, each at most what the layer costs."""

    energy_pj: float
    cycles: float
    dram_bits: int

    def plus(self, other: AloneBound) -> AloneBound:
        """Return the sum, of layers that run one after the other."""
        return AloneBound(
            self.energy_pj + other.energy_pj, self.cycles + other.cycles, self.dram_bits + other.dram_bits
        )

    def less(self, other: AloneBound) -> AloneBound:
        """Return what is left of a sum without the other one."""
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
    """Return its multiply-accumulates, one a cycle in each unit, and what of its operands in DRAM is surely touched.

    `homes` are those of its inputs that do not lie in DRAM. Where units count in parts nothing is said of DRAM.
    """
    macs = layer.layer.macs
    bits = 0 if machine.sharing.is_of_every_shape else _dram_bits(layer, maps, homes, output_home)
    return AloneBound(macs * machine.mac_energy_pj, macs / prod(machine.array.sizes.values()), bits)


def _dram_bits(layer: FusableLayer, maps: Mapping[str, FeatureMap], homes: Mapping[str, str], output_home: str) -> int:
    """Of a map that the nest may leave in part unread nothing is counted, of one that it reads twice one reading."""
    operands = (Operand.INPUT, Operand.WEIGHT)[: len(layer.reads)]
    read = {
        one.source: maps[one.source].size_bits
        for one, operand in zip(layer.reads, operands, strict=True)
        if one.source not in homes and _reads_all(layer.layer, operand, maps[one.source])
    }
    return layer.weight_bits + sum(read.values()) + (layer.output.size_bits if output_home == DRAM else 0)


def _reads_all(nest: Layer, operand: Operand, source: FeatureMap) -> bool:
    """Whether each element of the map is an operand of some product."""
    if nest.elements(operand) != source.elements:
        return False
    axes = zip(nest.axes, (nest.r, nest.s), strict=True)
    is_dense = all(axis.dilation == axis.stride == 1 or (taps == 1 and axis.stride == 1) for axis, taps in axes)
    return operand is not Operand.INPUT or is_dense
