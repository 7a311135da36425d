"""A mapping as the host's core runs its C: what the cost model is asked when a prediction stands beside a measurement.

The model takes every memory for one that software fills. Of a processor that is so in registers alone, and there the
compiler decides. So the model gets the mapping as it is run:

* In registers all loops are written out: sums of the tile stay, each input is read once for all vectors of a row (or
  each vector of weights once for all rows, where these are the fewer).
* A cache keeps whatever fits: its tile spans as many of the innermost loops as the operands together leave room for,
  wherever the mapping cuts. Where all of the operands fit they are from the run before.
* A vector with few lanes takes its whole cycle at the port of the nearest cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import MemoryLevel, Operand
from onchip.backends.nests.host import LANE
from onchip.backends.nests.nest_loops import GREATEST_SUMS, CNest, c_nest
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Layer
from onchip.model.layer.cost import layer_cost


def predicted_cycles(problem: LayerProblem, mapping: LayerMapping) -> float:
    """Cycles of a legal mapping as it is run again and again; raises InputError for a layer that has no form in C."""
    nest = c_nest(problem.layer, mapping)
    run = _in_registers(nest, problem.accelerator)
    layer = run.layer(problem.layer)  # with the iterations beyond its bounds: the model refuses loops that end short
    machine = _as_compiled(problem.accelerator, nest.lanes)
    caches = [level for level in machine.levels if level.memory.holds == tuple(Operand)]
    places = {level.memory.name: _loops_that_fit(layer, run, level) for level in caches}
    home = next((name for name, loops in places.items() if loops == len(run.nest)), None)
    homes = Homes(home, home, home)
    nearer = dict(list(places.items())[: list(places).index(home)] if home is not None else places)
    return layer_cost(LayerProblem(layer, machine, homes), _in_caches(run, nearer)).cycles


def _in_registers(nest: CNest, machine: Accelerator) -> LayerMapping:
    """The loops as C has them, with tiles in registers alone: of sums, and of what is read once for several of them."""
    lanes = [] if nest.lane_loop is None else [Loop(nest.lane_loop, nest.lanes, LANE)]
    columns = [] if nest.lane_loop is None else [Loop(nest.lane_loop, nest.vectors(nest.lane_loop))]
    rows = [Loop(name, nest.vectors(name)) for name in RELEVANT[OUTPUT] if name != nest.lane_loop]
    inner, outer = (columns, rows) if _size(columns) <= _size(rows) else (rows, columns)
    added = [Loop(name, nest.tile[name]) for name in LOOPS if name not in RELEVANT[OUTPUT]]
    around = [Loop(loop.dimension, loop.size) for loop in (*nest.steps, *nest.around)]
    cuts = [len(lanes), len(lanes) + len(inner), len(lanes) + len(inner) + len(outer)]
    held, streamed = (WEIGHT, INPUT) if inner is columns else (INPUT, WEIGHT)
    loops = {held: cuts[2], streamed: cuts[1], OUTPUT: cuts[2]}
    kept = [
        tuple(Kept(one.memory.name, loops[operand]) for one in machine.levels if one.memory.holds == (operand,))
        for operand in Operand
    ]
    return LayerMapping((*lanes, *inner, *outer, *added, *around), *kept).without_loops_of_one()


def _size(loops: list[Loop]) -> int:
    return prod(loop.size for loop in loops)


def _in_caches(run: LayerMapping, places: Mapping[str, int]) -> LayerMapping:
    """The same mapping, with a tile in each cache that spans so many of the innermost loops, or more where it must."""
    kept = []
    for operand in Operand:
        mine = list(run.kept(operand))
        for name, loops in places.items():
            mine.append(Kept(name, max(loops, mine[-1].loops if mine else 0)))
        kept.append(tuple(mine))
    return LayerMapping(run.nest, *kept)


def _loops_that_fit(layer: Layer, run: LayerMapping, level: MemoryLevel) -> int:
    room_bits = 8 * level.memory.capacity_bytes // (2 if level.double_buffered else 1)
    fitting = (count for count in range(len(run.nest), -1, -1) if _bits_within(layer, run, count) <= room_bits)
    return next(fitting, 0)


def _bits_within(layer: Layer, run: LayerMapping, count: int) -> int:
    """What all operands take that the innermost loops touch, and those along the array."""
    inside = (*run.nest[:count], *(loop for loop in run.nest[count:] if loop.along is not None))
    spans = {name: prod(loop.size for loop in inside if loop.dimension == name) for name in LOOPS}
    pixels = prod(min(axis.span(spans[axis.output_loop], spans[axis.filter_loop]), axis.size) for axis in layer.axes)
    elements = {operand: prod(spans[name] for name in RELEVANT[operand]) for operand in (WEIGHT, OUTPUT)}
    elements[INPUT] = spans["N"] * spans["C"] * spans["G"] * pixels
    return sum(
        count * (layer.partial_bits if operand == OUTPUT else layer.bits(operand))
        for operand, count in elements.items()
    )


def _as_compiled(machine: Accelerator, lanes: int) -> Accelerator:
    """The machine whose nearest cache moves as many elements in a cycle as vectors have; registers are never short."""
    units = (machine.array or ComputeArray(free=1)).macs
    levels = []
    is_nearest = True
    for level in machine.levels:
        if level.memory.holds != tuple(Operand):
            roomy = replace(level.memory, capacity_bytes=level.memory.capacity_bytes * units * GREATEST_SUMS)
            levels.append(replace(level, memory=roomy))
            continue
        narrowed = (replace(one, bits_per_cycle=max(1, one.bits_per_cycle * lanes // units)) for one in level.ports)
        levels.append(replace(level, ports=tuple(narrowed)) if is_nearest else level)
        is_nearest = False
    return replace(machine, levels=tuple(levels))
