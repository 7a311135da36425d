"""Lower bounds on the array's cycles by spatial unrolling (way), for any loop order.

In each temporal iteration (turn), units read operands from the nearest memories and add to sums there. A port is busy
for the elements of the fullest turn. If a loop is unrolled over s units, at least s // 2 + 1 of them work in the first
turn, also if the loop has a remainder and is split into several parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.nest_work import work_of_all
from onchip.ir.layer import LOOPS, OUTPUT, RELEVANT, Layer
from onchip.model.layer.accesses import port_for, ports_of
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.unrolling import Ways

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
    """Return the layer's operands, without an input of which every used tap is a padded zero."""
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
