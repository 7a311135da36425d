"""Lower bounds on the energy of a layer's tile at given operand homes, and tests for the existence of a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

import numpy as np

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.bounds.group.layer_grids import AlikeSizes
from onchip.bounds.group.reuse_floors import ReuseFloors, reuse_floors
from onchip.bounds.layer.layer_floors import MachineFloors, OperandFloor
from onchip.ir.layer import Axis, Layer

_Nest: TypeAlias = tuple[Mapping[str, float], OperandFloor, ReuseFloors | None]
"""Floors of outputs by home, of inputs, and of weights (None if their reuse is unknown)."""


@dataclass(slots=True)
class ProblemFloors:
    """Floors of loop nests on one machine, in pJ, for mappings that bypass no memory."""

    machine: MachineFloors
    _nests: dict[tuple[Layer, bool], _Nest] = field(default_factory=dict)
    _alike: AlikeSizes = field(init=False)

    def __post_init__(self) -> None:
        self._alike = AlikeSizes(self.machine)

    def energy_pj(self, problem: LayerProblem) -> float:
        """Return a lower bound on the energy in pJ of any mapping with the operands at their homes."""
        layer = problem.layer
        per_output, per_input, reuse = self._nest(problem)
        energy_pj = layer.macs * self.machine.mac_energy_pj + _unpadded_macs(layer) * per_input.per_mac
        elements = _touched(layer)
        if problem.weight_is_an_input and layer.is_element_by_element:
            elements += layer.elements(Operand.WEIGHT)
        energy_pj += elements * per_input.per_element[problem.home(Operand.INPUT)]
        energy_pj += layer.elements(Operand.OUTPUT) * per_output[problem.home(Operand.OUTPUT)]
        return energy_pj + (self._weights_pj(problem, reuse) if reuse is not None else 0.0)

    def _weights_pj(self, problem: LayerProblem, reuse: ReuseFloors) -> float:
        """Return the least energy in pJ of the weights, plus the additional energy of outputs, over the reuse cases."""
        layer, home = problem.layer, self.machine.homes(Operand.WEIGHT).index(problem.home(Operand.WEIGHT))
        uses = np.array([layer.n * layer.p * layer.q], float)
        each = layer.elements(Operand.WEIGHT) * reuse.weight_pj(uses)[:, home, 0]
        return float((each + reuse.more_per_output[:, 0] * layer.elements(Operand.OUTPUT)).min())

    def _nest(self, problem: LayerProblem) -> _Nest:
        """Return the floors of the problem's loop nest.

        Padding changes none of these floors. The number of pixels changes only the possible unrollings.
        """
        layer, adds = problem.layer, problem.weight_is_an_input
        p, q = (int(self._alike.of(np.array(size), loop)) for size, loop in ((layer.p, "P"), (layer.q, "Q")))
        key = replace(layer, p=p, q=q, padding=(0, 0, 0, 0)), adds
        if key not in self._nests:
            nest = self.machine.of_tiles(key[0], {}, adds_two_maps=adds)
            by_pixel = layer.g > 1 and layer.p * layer.q == 1
            reuse = reuse_floors(nest) if layer.has_weight and not adds and not by_pixel else None
            self._nests[key] = nest.output_floor(), nest.floor(Operand.INPUT, layer.k), reuse
        return self._nests[key]


def surely_maps(problem: LayerProblem) -> bool:
    """Return True if each memory has room for one element of each operand that it keeps, and sums complete below home.

    Then a mapping fits: each tile is one element, and the reduction loops are innermost, so that a sum is complete
    above the nearest memory that keeps it. A mapper without bypass finds this mapping or a better one.
    """
    layer, home = problem.layer, problem.home(Operand.OUTPUT)
    is_complete = layer.c * layer.r * layer.s == 1
    for level, kept in zip(problem.levels, _kept_below_home(problem), strict=True):
        if level.memory.name == home and not is_complete:
            return False
        sums_bits = layer.bits(Operand.OUTPUT) if is_complete else layer.partial_bits
        widths = (sums_bits if one is Operand.OUTPUT else layer.bits(one) for one in kept)
        if sum(widths) * (2 if level.double_buffered else 1) > problem.room_bits(level.memory.name):
            return False
        is_complete |= Operand.OUTPUT in kept
    return True


def surely_maps_not(problem: LayerProblem) -> bool:
    """Return True if some memory has no room for one element of each operand that it keeps below its home.

    Then no mapping without bypass fits. Sums count as complete. Double buffering does not count, because an operand
    that never changes needs no second element.
    """
    bits, levels = problem.layer.bits, zip(problem.levels, _kept_below_home(problem), strict=True)
    return any(sum(map(bits, kept)) > problem.room_bits(level.memory.name) for level, kept in levels)


def _kept_below_home(problem: LayerProblem) -> list[frozenset[Operand]]:
    """Return for each level the operands whose tiles it has to keep."""
    found = [set[Operand]() for _ in problem.levels]
    for operand in problem.layer.operands:
        for own, _ in zip(found, problem.below_home(operand), strict=False):
            own.add(Operand(operand))
    return [kept & own for own, kept in zip(found, problem.kept, strict=True)]


def _unpadded_macs(layer: Layer) -> int:
    """Return the number of MACs of the pixels whose windows see no zeros."""
    rows, columns = (
        _inner(axis, outputs, taps)
        for axis, outputs, taps in zip(layer.axes, _outputs(layer), _taps(layer), strict=True)
    )
    return layer.macs // (layer.p * layer.q) * rows * columns


def _inner(axis: Axis, outputs: int, taps: int) -> int:
    firsts = (at * axis.stride - axis.padding for at in range(outputs))
    return sum(first >= 0 and first + (taps - 1) * axis.dilation < axis.size for first in firsts)


def _touched(layer: Layer) -> float:
    """Return a lower bound on the input elements that no stride skips and that do not lie between dilated taps."""
    padded = (layer.padding[0] or layer.padding[2], layer.padding[1] or layer.padding[3])
    shares = []
    for axis, taps, has_zeros in zip(layer.axes, _taps(layer), padded, strict=True):
        gap = max(axis.dilation if taps > 1 else 1, axis.stride - (taps - 1) * axis.dilation)
        if has_zeros and axis.size < gap:
            return 0.0
        shares.append(1 / (2 * gap - 1 if has_zeros else gap))
    return layer.elements(Operand.INPUT) * prod(shares)


def _outputs(layer: Layer) -> tuple[int, int]:
    return layer.p, layer.q


def _taps(layer: Layer) -> tuple[int, int]:
    return layer.r, layer.s
