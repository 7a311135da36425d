"""Mappings compiled as C, run and timed on this machine, and the cycles that the cost model predicts for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Final

from host.machine import HOST, LANE, HostCompiler
from host.timed_nest import ONE_THREAD, TimedNest

from onchip.answer.document import NamedMapping
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import MemoryLevel, Operand
from onchip.backends.nests.c_loops import GREATEST_SUMS, CNest, c_nest
from onchip.backends.nests.c_source import nest_source
from onchip.errors import InputError, InternalError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Layer
from onchip.model.layer.cost import layer_cost


@dataclass(frozen=True, slots=True)
class MeasuredMapping:
    """A mapping measured in turn with a peer; `ratio` is the median of the peer's time over its own.

    `model_cycles` are the cycles of the mapping as written, `predicted_cycles` those of its C on this machine; `error`
    is the greatest difference from the peer's values, relative to their maximum.
    """

    names: tuple[str, ...]
    macs: int
    seconds: float
    peer: str
    peer_seconds: float
    numpy_seconds: float
    ratio: float
    model_cycles: float
    predicted_cycles: float
    clock_mhz: float | None
    error: float
    is_right: bool

    @property
    def gflops(self) -> float:
        """Return billions of operations a second, two for each multiply-accumulate."""
        return 2e-9 * self.macs / self.seconds

    @property
    def measured_cycles(self) -> float | None:
        """Return its time in cycles of the accelerator's clock; None without one."""
        return None if self.clock_mhz is None else 1e6 * self.clock_mhz * self.seconds

    @property
    def predicted_of_measured(self) -> float | None:
        """Return the cycles predicted over those measured; None where the accelerator has no clock."""
        return None if self.measured_cycles is None else self.predicted_cycles / self.measured_cycles

    @property
    def peer_gflops(self) -> float:
        """Return what the peer reaches, in the same unit."""
        return 2e-9 * self.macs / self.peer_seconds


def predicted_cycles(problem: LayerProblem, mapping: LayerMapping) -> float:
    """Return the cycles of a legal mapping that runs repeatedly; raises InputError for a layer without a form in C."""
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
    """Return the loops of the C function, with tiles of sums and of one reused operand in registers."""
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
    """Return the mapping with a tile in each cache that spans `places` innermost loops, or more if it must."""
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
    """Return the bits of all operands within the innermost loops and along the array."""
    inside = (*run.nest[:count], *(loop for loop in run.nest[count:] if loop.along is not None))
    spans = {name: prod(loop.size for loop in inside if loop.dimension == name) for name in LOOPS}
    bits = {operand: layer.partial_bits if operand == OUTPUT else layer.bits(operand) for operand in RELEVANT}
    return sum(bits[operand] * layer.elements_within(operand, spans) for operand in RELEVANT)


def _as_compiled(machine: Accelerator, lanes: int) -> Accelerator:
    """Return the machine with a nearest cache that moves the elements of one vector in a cycle, and ample registers."""
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


FUNCTION: Final = "nest"
LONGEST_SECONDS: Final = 600.0


def measure_mapping(
    one: NamedMapping, accelerator: Accelerator, compiler: HostCompiler, seconds: float = 1.0, repeats: int = 5
) -> MeasuredMapping:
    """Compile, run and time one legal mapping; raises InputError where it cannot be written as C or compiled."""
    layer = one.mapping.layer(one.layer)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "nest.c", Path(folder) / "nest.so"
        source.write_text(nest_source(one.layer, one.mapping, FUNCTION))
        compiler.build(source, library, is_library=True)
        found = _run_alone(TimedNest(str(library.resolve()), FUNCTION, layer, seconds, repeats))
    model_cycles, cycles = _predicted(one, accelerator)
    found |= {"model_cycles": model_cycles, "predicted_cycles": cycles, "clock_mhz": accelerator.clock_mhz}
    return MeasuredMapping(one.names, layer.macs, **found)


def _predicted(one: NamedMapping, accelerator: Accelerator) -> tuple[float, float]:
    """Return the cycles by the cost model, and the predicted cycles if the accelerator is this machine.

    The model sees loops that end short as whole loops if it refuses them otherwise.
    """
    problem = LayerProblem(one.layer, accelerator)
    try:
        cycles = layer_cost(problem, one.mapping).cycles
    except InputError:
        if not one.mapping.ragged:
            raise
        padded = replace(one.mapping, ragged=())
        cycles = layer_cost(replace(problem, layer=padded.layer(one.layer)), padded).cycles
    return cycles, predicted_cycles(problem, one.mapping) if accelerator.name == HOST else cycles


def _run_alone(nest: TimedNest) -> dict[str, Any]:
    """Return the findings of the program in a process whose libraries use one thread."""
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-m", "host.timed_nest"]
    try:
        ended = subprocess.run(
            command,
            input=json.dumps(asdict(nest)),
            capture_output=True,
            text=True,
            env=environment,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError("it runs too long", place="measuring", expected=f"{LONGEST_SECONDS:g} seconds") from None
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines() or [f"it ended with {ended.returncode}"]
        raise InternalError(f"a compiled mapping does not run: {lines[-1]}", place="measuring")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
