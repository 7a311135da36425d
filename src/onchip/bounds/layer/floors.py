"""Lower bounds on the latency and the energy of a layer, over all mappings.

In each temporal iteration (turn), units read operands from the nearest memories and add to sums there. A port is busy
for the elements of the fullest turn. If a loop is unrolled over s units, at least s // 2 + 1 of them work in the first
turn, also if the loop has a remainder and is split into several parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.nest_work import NestWork, work_of_all
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.ir.layer import LOOPS, OUTPUT, RELEVANT, Layer
from onchip.model.layer.cost import access_of
from onchip.model.layer.limits import array_of, port_for, ports_of
from onchip.model.unrolling.unrolling import Ways, all_ways

ByWay: TypeAlias = NDArray[np.float64]
SLIDING = frozenset("PQRS")
"""Loops of an input's sliding windows: units at neighbouring iterations may use the same element."""


def turns_of(layer: Layer, ways: Ways) -> ByWay:
    """Return the number of turns by way. The last turn of a loop may leave units idle."""
    found: ByWay = np.prod(_turns(layer, ways), axis=1)
    return found


def waiting_turns(problem: LayerProblem, ways: Ways) -> ByWay:
    """Return the cycles of all turns by way, with stalls for the busiest port of a nearest memory."""
    found: ByWay = np.max([turns_of(problem.layer, ways), *busy_at_units(problem, ways, ways).values()], axis=0)
    return found


def busy_at_units(
    problem: LayerProblem, least: Ways, ways: Ways, fewest_turns: Sequence[int] = (1,) * len(LOOPS)
) -> dict[tuple[str, int], ByWay]:
    """Map each (memory, port) to its least busy cycles by way, over all turns, for operand reads and accumulation.

    Valid for each unrolling between `least` and `ways`, if each loop takes at least `fewest_turns` turns.
    """
    of_loops = np.maximum(_turns(problem.layer, ways), fewest_turns)
    turns: ByWay = np.prod(of_loops, axis=1)
    ports: dict[tuple[str, int], ByWay] = defaultdict(lambda: np.zeros(len(ways)))
    for operand in _moved(problem):
        memory = _memories(problem, operand)[0]
        own = ports_of(problem.accelerator, memory)
        if not own:
            continue
        elements = _elements(problem, least, operand)
        if operand is not Operand.OUTPUT:
            port = port_for(memory, own, Move.READ_FOR_BELOW)
            bits = problem.layer.bits(operand)
            ports[memory, port] += turns * np.ceil(elements * bits / own[port].bits_per_cycle)
            continue
        begun = np.prod(of_loops[:, [at for at, loop in enumerate(LOOPS) if loop in RELEVANT[OUTPUT]]], axis=1)
        bits_by_way = np.where(turns > begun, problem.layer.partial_bits, problem.layer.output_bits)
        for move, times in ((Move.WRITE_FROM_BELOW, turns), (Move.READ_FOR_BELOW, turns - begun)):
            port = port_for(memory, own, move)
            ports[memory, port] += times * np.ceil(elements * bits_by_way / own[port].bits_per_cycle)
    return dict(ports)


def first_and_last(problem: LayerProblem) -> int:
    """Return the cycles to load an input or weight element before the first turn and store an output after the last."""
    cycles = {
        operand: sum(_hop(problem, operand, lower, upper) for lower, upper in pairwise(_memories(problem, operand)))
        for operand in _moved(problem)
    }
    return cycles.pop(Operand.OUTPUT) + max(cycles.values(), default=0)


def _moved(problem: LayerProblem) -> list[Operand]:
    """Return the layer's operands, without an input whose used taps are all padded zeros."""
    is_read = work_of_all(problem.layer).inputs > 0
    return [one for one in Operand if one in problem.layer.operands and (one is not Operand.INPUT or is_read)]


def _hop(problem: LayerProblem, operand: Operand, lower: str, upper: str) -> int:
    """Return the cycles to move an element between two adjacent memories, on the slower port."""
    is_output = operand is Operand.OUTPUT
    moves = (Move.READ_FOR_ABOVE, Move.WRITE_FROM_BELOW) if is_output else (Move.WRITE_FROM_ABOVE, Move.READ_FOR_BELOW)
    busy = [0]
    for memory, move in zip((lower, upper), moves, strict=True):
        own = ports_of(problem.accelerator, memory)
        if own:
            busy.append(-(-problem.layer.bits(operand) // own[port_for(memory, own, move)].bits_per_cycle))
    return max(busy)


def _memories(problem: LayerProblem, operand: Operand) -> list[str]:
    """Return the memories that keep tiles of the operand, nearest the units first, and its home."""
    return [*(level.memory.name for level in problem.keepers(operand)), problem.home(operand)]


def _turns(layer: Layer, ways: Ways) -> ByWay:
    """Return the number of turns of each loop, of shape (way, loop)."""
    bounds = np.array(list(layer.bounds.values()), dtype=np.float64)
    found: ByWay = np.ceil(bounds / np.prod(ways, axis=1, dtype=np.float64))
    return found


def _elements(problem: LayerProblem, ways: Ways, operand: Operand) -> ByWay:
    """Return by way the least number of elements that one instance of the nearest memory moves in the fullest turn."""
    memory = _memories(problem, operand)[0]
    serves = next((level.serves for level in problem.levels if level.memory.name == memory), None)
    names = list(array_of(problem.accelerator).sizes)
    along = [at for at, name in enumerate(names) if memory == DRAM or serves is None or name in serves]
    units = np.prod(ways[:, along], axis=1, dtype=np.float64)
    at_work = np.where(units > 1, units // 2 + 1, 1.0)
    counted = [
        at
        for at, loop in enumerate(LOOPS)
        if loop in RELEVANT[operand] and not (operand is Operand.INPUT and loop in SLIDING)
    ]
    found: ByWay = np.prod(at_work[:, counted], axis=1)
    return found


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
    floors = machine.of(layer)
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
    at_work = AnyUnrolling(problem.accelerator).of(layer).at_work
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
    dram, work = access_of(problem.accelerator, DRAM), work_of_all(layer)
    elements = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights, Operand.OUTPUT: work.outputs}
    for operand in layer.operands:
        if problem.home(operand) == DRAM:
            each_pj = dram.write_energy_pj if operand == OUTPUT else dram.read_energy_pj
            energy_pj += elements[Operand(operand)] * layer.bits(operand) / dram.access_bits * each_pj
    return energy_pj, layer.macs / array.macs
