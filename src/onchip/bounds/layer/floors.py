"""Lower bounds on a layer that need no search: for mappings WITHOUT_BYPASS, and for every legal mapping."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from math import ceil, prod
from typing import Final

from onchip.answer.layer_mapping import Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.nest_work import NestWork, work_of_all
from onchip.bounds.layer.turns import first_and_last, waiting_turns
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, Axis, Layer
from onchip.model.layer.accesses import port_for
from onchip.model.layer.cost import access_of
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.unrolling import all_ways

SAFE: Final = 1 - 1e-9
"""Factor that covers the difference between float sums in different orders."""


def floor_of_any(problem: LayerProblem, objective: MappingObjective) -> int:
    """Return a lower bound on the mappings WITHOUT_BYPASS, in the objective's unit.

    Raises AcceleratorError if the accelerator lacks data.
    """
    return int(objective.of(_least_energy_pj(problem) * SAFE, least_cycles(problem)))


def floor_with_bypass(problem: LayerProblem, objective: MappingObjective) -> int:
    """Return a lower bound on every legal mapping, including those with bypass, in the objective's unit.

    The array computes every product, and each element crosses the port of its home at least once.
    """
    energy_pj, turns = compulsory_cost(problem)
    busy = _busy_cycles(problem, work_of_all(problem.layer)).values()
    return int(objective.of(energy_pj * SAFE, max(ceil(turns * SAFE), *busy, 1)))


def _least_energy_pj(problem: LayerProblem) -> float:
    """Return the least energy in pJ: MACs, feeding of the units, and one pass of each element through its memories."""
    plain_pj, _ = compulsory_cost(problem)
    if problem.weight_is_an_input:
        return plain_pj
    layer, work = problem.layer, work_of_all(problem.layer)
    machine = MachineFloors(problem.accelerator, AnyUnrolling(problem.accelerator, every_memory_keeps=True))
    floors = machine.of([layer])
    energy_pj = layer.macs * machine.mac_energy_pj
    uses = {
        Operand.INPUT: (work.macs_with_input, work.inputs, work.uses_of_input),
        Operand.WEIGHT: (work.macs, work.weights, work.uses_of_weight),
    }
    for operand, (macs, elements, uses_of_one) in uses.items():
        if operand in layer.operands:
            floor = floors.floor(operand, uses_of_one)
            energy_pj += macs * floor.per_mac + elements * floor.per_element[problem.home(operand)]
    energy_pj += work.outputs * floors.output_floor()[problem.home(Operand.OUTPUT)]
    return max(energy_pj, plain_pj)


@lru_cache(maxsize=64)
def least_cycles(problem: LayerProblem) -> int:
    """Return the least cycles: the array's turns with memory stalls, first and last elements, or the DRAM transfers."""
    busy = _busy_cycles(problem, work_of_all(problem.layer)).values()
    return max(_least_turning(problem) + first_and_last(problem), *busy, 1)


def _least_turning(problem: LayerProblem) -> int:
    """Return the least cycles of the array's turns over all spatial unrollings.

    If the unrollings are too many to list, the bound is that of the unit count alone.
    """
    layer, array = problem.layer, array_of(problem.accelerator)
    at_work = AnyUnrolling(problem.accelerator).of([layer]).at_work
    found = ceil(layer.macs / min(at_work, array.macs) * SAFE)
    ways = all_ways(problem)
    return found if ways is None else max(found, int(waiting_turns(problem, ways).min()))


def _busy_cycles(problem: LayerProblem, work: NestWork) -> dict[int, int]:
    """Map each DRAM port to its busy cycles for the operands whose home is DRAM."""
    dram = problem.accelerator.dram
    bits: dict[int, int] = defaultdict(int)
    if dram is None or not dram.ports:
        return bits
    elements = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights, Operand.OUTPUT: work.outputs}
    for operand, count in elements.items():
        if operand in problem.layer.operands and problem.home(operand) == DRAM:
            move = Move.WRITE_FROM_BELOW if operand is Operand.OUTPUT else Move.READ_FOR_BELOW
            bits[port_for(DRAM, dram.ports, move)] += count * problem.layer.bits(operand)
    return {port: -(-moved // dram.ports[port].bits_per_cycle) for port, moved in bits.items()}


def compulsory_cost(problem: LayerProblem) -> tuple[float, float]:
    """Return lower bounds on energy (pJ) and cycles: all multiply-accumulates, each element moved once at DRAM."""
    layer, array = problem.layer, array_of(problem.accelerator)
    energy_pj = layer.macs * (array.mac_energy_pj or 0.0)
    dram = access_of(problem.accelerator, DRAM)
    for operand in layer.operands:
        if problem.home(operand) == DRAM:
            each_pj = dram.write_energy_pj if operand == OUTPUT else dram.read_energy_pj
            energy_pj += _moved_elements(layer, operand) * layer.bits(operand) / dram.access_bits * each_pj
    return energy_pj, layer.macs / array.macs


def _moved_elements(layer: Layer, operand: str) -> int:
    """Return the number of elements that every mapping moves. Input rows that a stride skips need not move."""
    if operand != INPUT:
        return layer.elements(operand)
    touched = prod(_touched(axis, layer.bounds) for axis in layer.axes)
    return touched * prod(layer.bounds[loop] for loop in RELEVANT[INPUT] if loop in ("N", "C", "G"))


def _touched(axis: Axis, bounds: dict[str, int]) -> int:
    outputs, taps = range(bounds[axis.output_loop]), range(bounds[axis.filter_loop])
    found = {o * axis.stride + t * axis.dilation - axis.padding for o in outputs for t in taps}
    return sum(0 <= position < axis.size for position in found)
